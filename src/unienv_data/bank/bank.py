"""The bank: which pieces are present, how they get in and out, and the one gather.

State of a piece, in mapped memory so that every process sees it: present by column, dirty
(newer than its Parquet file), the tag of the file it was decoded from, and the order in which
pieces came in. Everything else is a cache of this process.

Reading takes no lock. A reader notes the eviction counter, checks presence, copies, and looks at
the counter again: whoever empties a piece raises the counter before the first byte goes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unienv_data.bank.alone import gather_alone
from unienv_data.bank.columns import BankColumn, Taker, TextColumn, open_column
from unienv_data.bank.locks import BankLocks
from unienv_data.base.indexing import RowArray
from unienv_data.errors import (
    CommitConflictError,
    CorruptPieceError,
    ForkedWriterError,
    StorageSpaceError,
)
from unienv_data.format.codec import ColumnData, Texts
from unienv_data.format.layout import Layout
from unienv_data.format.schema import Schema
from unienv_data.io.boot import boot_number
from unienv_data.io.mapped import PAGE, MappedFile

__all__ = ["FILE_BYTES", "Bank", "PieceSource", "bytes_on_disk", "count_dirty"]

_MAGIC = 0x314B_4E41_4255  # "UBANK1"
_GATHER_ATTEMPTS = 16
_FAULT_ATTEMPTS = 100
_LEAST_PIECES = 64  # a page of records

# Words of the header file.
MAGIC, SCHEMA, BOOT, EVICTIONS, ORDER, RESIDENT, FILE_BYTES, WRITES, GONE = range(9)
# WRITES is odd while a writer overwrites rows, GONE says that it closed: for its forked children.

# Words of a piece's record.
_TAG, _ORDER, _DIRTY, _TEXT_BYTES, _CHANGED = range(5)
_RECORD_WORDS = 8

CLEAN, APPENDED, REWRITTEN = range(3)
"""Dirty states: equal to the file; rows were added to it; rows that it holds were changed."""


def count_dirty(directory: Path) -> int:
    """Pieces newer than their files in a bank that this process has not opened."""
    try:
        words = np.fromfile(directory / "pieces", dtype=np.int64)
    except OSError:
        return 0
    records = words[: len(words) // _RECORD_WORDS * _RECORD_WORDS].reshape(-1, _RECORD_WORDS)
    return int(np.count_nonzero(records[:, _DIRTY]))


def bytes_on_disk(directory: Path) -> int:
    """Lengths of the files of a bank that grow, added up."""
    names = ("pieces", "present")
    return sum(
        entry.stat().st_size
        for entry in os.scandir(directory)
        if entry.name in names or entry.name.startswith("column-")
    )


class PieceSource(Protocol):
    """Where absent pieces come from."""

    def tag(self, piece: int) -> int:
        """Identity of a piece's file as it is now; 0 where there is none and rows are zeros."""
        ...

    def load(self, piece: int, columns: Sequence[int]) -> list[ColumnData] | None:
        """Decodes columns of a piece; None where it has no file and rows are zeros."""
        ...

    def changed_by(self, piece: int) -> int:
        """Commit that last changed rows the piece loaded last already had, 0 for none."""
        ...

    def check_snapshot(self, piece: int, changed: int) -> None:
        """Raises when a piece was changed by a commit later than the one that is shown."""
        ...


class Bank:
    """Flat columns over a directory of mapped files.

    Owns the files in `directory`. `exclusive` banks are the working set of one writer: their
    pieces are right by construction; others are shared caches, whose pieces are checked against
    the tags of the files they came from.
    """

    def __init__(
        self,
        directory: Path,
        schema: Schema,
        layout: Layout,
        source: PieceSource,
        *,
        rows: int,
        budget_bytes: int,
        exclusive: bool,
    ) -> None:
        self.directory = directory
        self.schema = schema
        self.layout = layout
        self.source = source
        self.budget_bytes = budget_bytes
        self.exclusive = exclusive
        self.rows = rows
        self._pid = os.getpid()
        self._is_tight = False
        self._takers: list[Taker] = []
        self._taken_rows = -1
        self.faults = 0
        """Pieces decoded by this object."""
        self.locks = BankLocks(directory / "lock")
        with self.locks.mutex, self.locks.allocation():
            self._header = MappedFile(directory / "header", PAGE, create=True)
            self.words = self._header.words()
            create = not self._is_ours()
            # A file that was cut would be grown again and read as zeros: such a cache goes. A
            # writer's working set was looked at by whoever adopts it.
            if not create and not exclusive:
                create = bytes_on_disk(directory) < self.words[FILE_BYTES]
            if create:
                self._wipe()
            reserved = self._reserved_rows(rows)
            # As long as they have to be at once: opening costs the same for any number of pieces.
            pieces = self.layout.count(rows) + 1
            stored = max(len(schema.columns), 1)
            self._records_file = MappedFile(
                directory / "pieces", max(pieces * _RECORD_WORDS * 8, PAGE), create=True
            )
            self._present_file = MappedFile(
                directory / "present", max(pieces * stored, PAGE), create=True
            )
            self.columns: list[BankColumn] = [
                open_column(
                    column, directory, number, reserved, self.locks, layout.piece_size, create=True
                )
                for number, column in enumerate(schema.columns)
            ]
            if create:
                self.words[SCHEMA] = schema.fingerprint()
                self.words[BOOT] = boot_number()
                self.words[MAGIC] = _MAGIC
            if exclusive:
                self.words[GONE] = 0
        self.adopted = not create
        """Whether the files were there already."""
        self._reserved = reserved
        self._known_tags = np.zeros(0, dtype=np.int64)
        self.records = np.zeros((0, _RECORD_WORDS), dtype=np.int64)
        self._cover(self.layout.count(rows) + 1)
        self._note_sizes()
        self._piece_bytes = sum(c.row_bytes for c in self.columns) * layout.piece_size

    # -- files -------------------------------------------------------------------------------

    def _is_ours(self) -> bool:
        return (
            self.words[MAGIC] == _MAGIC
            and self.words[SCHEMA] == self.schema.fingerprint()
            and self.words[BOOT] == boot_number()
        )

    def _wipe(self) -> None:
        """Empties a directory whose pages another boot, or another schema, left unsynced."""
        for entry in os.scandir(self.directory):
            if entry.name not in ("lock", "header", "users"):
                Path(entry.path).unlink()
        for word in range(len(self.words)):
            self.words[word] = 0

    def _reserved_rows(self, rows: int) -> int:
        """Rows to map at once: sparse, so generous ones cost nothing."""
        if not self.layout.is_uniform:
            return max(rows, 1)
        if not self.exclusive:
            # Other readers may show more rows of the last piece than this one.
            return self.layout.bounds(self.layout.count(max(rows, 1)) - 1, 1 << 62)[1]
        return max(2 * rows, 1 << 16, 4 * self.layout.piece_size)

    def _note_sizes(self) -> None:
        """Writes down how long the files are; they only grow."""
        total = self._records_file.size + self._present_file.size
        total += sum(column.file_bytes for column in self.columns)
        if total > self.words[FILE_BYTES]:
            self.words[FILE_BYTES] = total

    def _cover(self, pieces: int) -> None:
        """Maps the state of at least `pieces` pieces.

        Backed with space, since it is scanned: reading a hole of a file in memory takes memory,
        and would be a SIGBUS where there is none left.
        """
        stored = max(len(self.schema.columns), 1)
        if self.adopted and self.exclusive:
            # The writer before may have prepared pieces beyond those that it counted.
            before = self._records_file.size // (_RECORD_WORDS * 8)
            pieces = max(pieces, min(before, self._present_file.size // stored))
        pieces = max(
            pieces, _LEAST_PIECES, min(2 * len(self.records), self.layout.count(self._reserved) + 1)
        )
        with self.locks.mutex:
            self._records_file.reserve(pieces * _RECORD_WORDS * 8)
            self._present_file.reserve(pieces * stored)
            self._records_file.allocate(0, pieces * _RECORD_WORDS * 8)
            self._present_file.allocate(0, pieces * stored)
        self.records = self._records_file.array(np.dtype(np.int64), (pieces, _RECORD_WORDS))
        self.present = self._present_file.array(np.dtype(np.uint8), (pieces, stored))
        # Tags that this process read off the files; they stay true while its snapshot does.
        known = np.zeros(pieces, dtype=np.int64)
        known[: len(self._known_tags)] = self._known_tags[:pieces]
        self._known_tags = known
        self._forget()

    def _forget(self) -> None:
        """Checks every piece anew before its next read."""
        self._seen_evictions = self.words[EVICTIONS]
        pieces = len(self.records)
        stored = max(len(self.schema.columns), 1)
        self._ready = np.zeros(pieces, dtype=bool)
        self._ready_columns = np.zeros((stored, pieces), dtype=bool)
        self._backed = np.zeros(pieces, dtype=bool)
        self._ready_counts = np.zeros(stored, dtype=np.int64)
        self._settled = [False] * stored
        self._all_ready = False
        for column in self.columns:
            if isinstance(column, TextColumn):
                column.heap.forget_decoded()

    def reserve(self, rows: int) -> None:
        """Maps at least `rows` rows; existing arrays stay valid."""
        if rows > self._reserved:
            self._reserve_columns(rows)
        pieces = self.layout.count(rows) + 1
        if pieces > len(self.records):
            self._cover(pieces)
            self._note_sizes()

    def _reserve_columns(self, rows: int) -> None:
        reserved = self._reserved_rows(rows)
        with self.locks.mutex:
            for column in self.columns:
                column.reserve(reserved)
        self._reserved = reserved
        self._taken_rows = -1
        self._note_sizes()

    def renew(self, rows: int) -> None:
        """Follows the storage to another snapshot: every piece's file is looked at again."""
        self.rows = rows
        self.reserve(rows)
        self._known_tags[:] = 0
        self._forget()

    def set_rows(self, rows: int) -> None:
        """Tells the bank how many rows the storage has."""
        self.reserve(rows)
        self.rows = rows
        self._settle()

    def after_fork(self) -> None:
        """In a child: flags may have been half written by a thread of the parent."""
        self.locks.after_fork()
        self._forget()

    @contextmanager
    def overwriting(self) -> Iterator[None]:
        """Tells forked children that rows which they may be reading are changing."""
        words = self.words
        words[WRITES] |= 1
        try:
            yield
        finally:
            words[WRITES] += 1

    def close(self, *, remove: bool = False) -> None:
        """Drops the mappings, and the files when asked."""
        if self.exclusive and self._pid == os.getpid():
            self.words[GONE] = 1
        for column in self.columns:
            column.close()
        self._ready = np.zeros(0, dtype=bool)
        del self.records, self.present
        self._takers, self._taken_rows = [], -1
        self.words.release()
        for file in (self._header, self._records_file, self._present_file):
            file.close()
        if remove:
            shutil.rmtree(self.directory, ignore_errors=True)
        self.locks.close()

    # -- reading -----------------------------------------------------------------------------

    def take_ready(
        self, index: NDArray[np.int64], columns: Sequence[int], length: int
    ) -> list[Any] | None:
        """The straight path of training: every piece is here, one take a column.

        Args:
            index: Rows of shape ``(B,)``, negative ones counting from the end; unchecked.
            columns: Numbers of the columns wanted.
            length: Rows of the storage.

        Returns:
            One array ``(B, *shape)`` a column; None when a piece is absent or a row out of bounds,
            and `gather` has to look closer.
        """
        words = self.words
        evictions = words[EVICTIONS]
        if not self._all_ready or evictions != self._seen_evictions:
            return None
        if length != self._taken_rows:
            self._takers = [column.taker(length) for column in self.columns]
            self._taken_rows = length
        takers = self._takers
        try:
            batch = [takers[c](index, 0) for c in columns]
        except (IndexError, CorruptPieceError):
            return None
        return batch if words[EVICTIONS] == evictions else None

    def gather(self, index: int | slice | RowArray, columns: Sequence[int]) -> list[Any]:
        """Copies rows of some columns, bringing absent pieces in first.

        Args:
            index: A row, a range of step 1, or int64 rows of shape ``(B,)``; all in bounds.
            columns: Numbers of the columns wanted.

        Returns:
            One value (int) or array ``(B, *shape)`` a column. Never views of the file.

        Raises:
            FormatError: A piece file that is needed is missing or damaged.
        """
        for _ in range(_GATHER_ATTEMPTS):
            evictions = self.words[EVICTIONS]
            if evictions != self._seen_evictions:
                self._forget()
                evictions = self._seen_evictions
            if not self._all_ready and not all(self._settled[c] for c in columns):
                rest = self._ensure(index, columns)
                if rest is not None:
                    return self._gather_in_parts(index, columns, rest)
                # Our own evictions for it are seen already; another process's are not.
                evictions = self._seen_evictions
            try:
                result = self._copy(index, columns)
            except CorruptPieceError:
                # Text of an extent that was emptied under us; anything else is raised again.
                if self.words[EVICTIONS] == evictions:
                    raise
                continue
            if self.words[EVICTIONS] == evictions:
                return result
        # Other processes empty the bank faster than we copy.
        rows = np.arange(index.start, index.stop) if isinstance(index, slice) else index
        described = [(c, self.columns[c].column) for c in columns]
        with self.locks.mutex:
            found = gather_alone(self.source, self.layout, described, np.atleast_1d(rows))
        return [values[0] for values in found] if isinstance(index, int) else found

    def _copy(self, index: int | slice | RowArray, columns: Sequence[int]) -> list[Any]:
        mine = self.columns
        if isinstance(index, slice):
            return [mine[c].copy(index.start, index.stop) for c in columns]
        if isinstance(index, int):
            return [mine[c].item(index) for c in columns]
        return [mine[c].take(index) for c in columns]

    def _pieces(self, index: int | slice | RowArray) -> NDArray[np.int64]:
        """Distinct pieces of an index, ascending."""
        if isinstance(index, slice):
            span = self.layout.span(index.start, index.stop)
            return np.arange(span.start, span.stop)
        if isinstance(index, int):
            return np.array([self.layout.piece_of(index)])
        if len(index) < len(self._ready):
            return np.unique(self.layout.pieces_of(index))
        touched = np.zeros(len(self._ready), dtype=bool)
        touched[self.layout.pieces_of(index)] = True
        return np.flatnonzero(touched)

    def _ensure(
        self, index: int | slice | RowArray, columns: Sequence[int]
    ) -> NDArray[np.int64] | None:
        """Makes the pieces of an index present; gives them back when they exceed the budget."""
        whole = len(columns) == len(self.columns)
        if isinstance(index, int):
            piece = self.layout.piece_of(index)
            if self._ready[piece]:
                return None
            missing = np.array([piece])
        elif isinstance(index, slice) or len(index) > 4096:
            pieces = self._pieces(index)
            missing = pieces[~self._ready[pieces]]
        else:
            touched = self.layout.pieces_of(index)
            missing = touched[~self._ready[touched]]
            if missing.size:
                missing = np.unique(missing)
        if missing.size and not whole:
            there = self._ready_columns[np.asarray(columns)][:, missing].all(axis=0)
            missing = missing[~there]
        if missing.size:
            missing = missing[~self._accept(missing, columns)]
        if not missing.size:
            return None
        width = sum(self.columns[c].row_bytes for c in columns) * self.layout.piece_size
        pieces = self._pieces(index)
        if width * pieces.size > self.budget_bytes and pieces.size > 1:
            return pieces
        try:
            self.fault(missing, columns, keep=pieces)
        except StorageSpaceError:
            if pieces.size == 1:
                raise
            self._is_tight = True  # they do not fit the disk together: one at a time
            return pieces
        return None

    def _accept(self, pieces: NDArray[np.int64], columns: Sequence[int]) -> NDArray[np.bool_]:
        """Which pieces are present with the tag this process knows; these become ready."""
        there: NDArray[np.bool_] = np.all(self.present[pieces][:, np.asarray(columns)], axis=1)
        if not self.exclusive:
            known = self._known_tags[pieces]
            there = there & (known != 0) & (known == self.records[pieces, _TAG])
        for piece in pieces[there].tolist():
            self._mark_ready(piece)
        return there

    def _gather_in_parts(
        self, index: int | slice | RowArray, columns: Sequence[int], pieces: NDArray[np.int64]
    ) -> list[Any]:
        """Gathers an index whose pieces do not fit the budget together, a few pieces at a time."""
        if isinstance(index, int):
            return self.gather(index, columns)
        rows = np.arange(index.start, index.stop) if isinstance(index, slice) else index
        width = sum(self.columns[c].row_bytes for c in columns) * self.layout.piece_size
        at_once = 1 if self._is_tight else max(1, self.budget_bytes // (2 * max(width, 1)))
        self._is_tight = False
        results = [self.columns[c].column.zeros(len(rows)) for c in columns]
        touched = self.layout.pieces_of(rows)
        for first in range(0, len(pieces), at_once):
            group = pieces[first : first + at_once]
            here = np.flatnonzero((touched >= group[0]) & (touched <= group[-1]))
            for result, part in zip(results, self.gather(rows[here], columns), strict=True):
                result[here] = part
        return results

    # -- filling and emptying ----------------------------------------------------------------

    def fault(
        self, pieces: NDArray[np.int64], columns: Sequence[int], keep: NDArray[np.int64]
    ) -> None:
        """Decodes absent columns of pieces into the bank.

        Args:
            pieces: Distinct piece numbers.
            columns: Columns wanted.
            keep: Pieces that must not be evicted for them.
        """
        if self.exclusive and os.getpid() != self._pid:
            raise ForkedWriterError("fault: this bank is the working set of another process")
        with self.locks.mutex:
            for piece in pieces.tolist():
                self._fault_one(piece, columns, keep)

    def _fault_one(self, piece: int, columns: Sequence[int], keep: NDArray[np.int64]) -> None:
        for _ in range(_FAULT_ATTEMPTS):
            tag = 0 if self.exclusive else self.source.tag(piece)
            with self.locks.piece(piece):
                if self._fault_tagged(piece, columns, keep, tag):
                    return
        raise CommitConflictError(
            f"get: piece {piece} is replaced faster than it can be read; call refresh() and repeat",
            found=piece,
        )

    def _fault_tagged(
        self, piece: int, columns: Sequence[int], keep: NDArray[np.int64], tag: int
    ) -> bool:
        """Decodes a piece; False when its file is no longer the one that the tag is of."""
        record = self.records[piece]
        if not self.exclusive and record[_TAG] != tag:
            if self.present[piece].any():
                self._empty(piece)
            record[_TAG] = tag
        missing = [c for c in columns if not self.present[piece, c]]
        if missing:
            start, stop = self.layout.bounds(piece, self._reserved)
            width = sum(self.columns[c].row_bytes for c in missing) * (stop - start)
            if self.words[RESIDENT] + width > self.budget_bytes:
                self.evict(width, keep)
            data = self.source.load(piece, missing)
            if not self.exclusive and self.source.tag(piece) != tag:
                return False
            try:
                texts = self._fill(piece, start, missing, data)
            except StorageSpaceError:
                # The disk is full, perhaps of clean pieces: rows can still be read.
                self.evict(self.budget_bytes, keep)
                texts = self._fill(piece, start, missing, data)
            with self.locks.allocation():
                self.words[RESIDENT] += width + texts
                record[_TEXT_BYTES] += texts
                if texts:
                    self._note_sizes()
                self.words[ORDER] += 1
                record[_ORDER] = self.words[ORDER]
            record[_CHANGED] = self.source.changed_by(piece)
            for c in missing:
                self.present[piece, c] = 1
        if not self.exclusive:
            # Whoever filled it, perhaps for a later snapshot than ours.
            self.source.check_snapshot(piece, int(record[_CHANGED]))
        self._known_tags[piece] = tag
        self._mark_ready(piece)
        return True

    def _fill(
        self, piece: int, start: int, columns: Sequence[int], data: list[ColumnData] | None
    ) -> int:
        """Writes a piece's decoded columns, and gives the bytes of their texts."""
        for c in columns:
            column = self.columns[c]
            if isinstance(column, TextColumn):
                column.heap.free(piece)  # what a failed attempt left
        if data is None or (self.exclusive and not self._covers(data)):
            # Rows without a value are read too, and reading a hole takes memory where the files
            # are in memory: allocated first, a full one is an error and no SIGBUS.
            self.back(piece)
        if self.exclusive or data is None:
            self._clear_stale(piece, columns)
        if data is None:
            return 0
        texts = 0
        for c, values in zip(columns, data, strict=True):
            self.columns[c].fill(piece, start, values)  # a write call, which allocates
            if isinstance(values, Texts):
                texts += sum(map(len, values.values)) + 8 * len(values.values)
        self.faults += 1
        if len(columns) == len(self.columns) and self._covers(data):
            self._backed[piece] = True
        return texts

    def _covers(self, data: Sequence[ColumnData]) -> bool:
        """Whether decoded columns have a value for every row that a piece can hold."""
        first = data[0]
        count = len(first.codes if isinstance(first, Texts) else first)
        return count >= self.layout.piece_size

    def _clear_stale(self, piece: int, columns: Sequence[int]) -> None:
        """Zeros what an earlier stay of a piece left in pages that neighbours share."""
        if self.records[piece, _ORDER] == 0:
            return  # it was never here: its part of the files is a hole
        self.back(piece)
        start, stop = self.layout.bounds(piece, self._reserved)
        for c in columns:
            self.columns[c].clear(start, stop)

    def _mark_ready(self, piece: int) -> None:
        here = self.present[piece] != 0
        self._ready_counts += here & ~self._ready_columns[:, piece]
        self._ready_columns[:, piece] |= here
        self._ready[piece] = bool(here.all())
        self._settle()

    def _mark_absent(self, piece: int) -> None:
        self._ready_counts -= self._ready_columns[:, piece]
        self._ready_columns[:, piece] = False
        self._ready[piece] = False
        self._backed[piece] = False
        self._settled = [False] * len(self._settled)
        self._all_ready = False

    def _settle(self) -> None:
        """Finds out which columns are ready in every piece: reading them checks nothing."""
        count = self.layout.count(self.rows)
        self._settled = [
            self._ready_counts[c] >= count and bool(self._ready_columns[c, :count].all())
            for c in range(len(self._settled))
        ]
        self._all_ready = all(self._settled)

    def evict(self, needed: int, keep: NDArray[np.int64]) -> None:
        """Empties clean pieces, oldest first, until `needed` bytes fit the budget.

        Dirty pieces stay, so a bank full of them may exceed its budget until they are sealed.
        """
        if self.exclusive and os.getpid() != self._pid:
            return  # the writer's pieces change under no lock of ours: only it may empty them
        goal = self.budget_bytes - self.budget_bytes // 16 - needed
        able = self.present.any(axis=1) & (self.records[:, _DIRTY] == CLEAN)
        able[keep[keep < len(able)]] = False
        candidates = np.flatnonzero(able)
        order = candidates[np.argsort(self.records[candidates, _ORDER], kind="stable")]
        for piece in order.tolist():
            if self.words[RESIDENT] <= max(goal, 0):
                return
            if self.locks.try_piece(piece):
                try:
                    self._empty(piece)
                finally:
                    self.locks.release_piece(piece)

    def _empty(self, piece: int) -> None:
        """Makes a piece absent; the caller holds its lock."""
        here = [c for c in range(len(self.columns)) if self.present[piece, c]]
        self.present[piece] = 0
        self._mark_absent(piece)
        start, stop = self.layout.bounds(piece, self._reserved)
        first, last = self._around(piece, start, stop)
        with self.locks.allocation():
            # Before the first byte goes: readers compare this counter around their copy.
            if self._seen_evictions == self.words[EVICTIONS]:
                self._seen_evictions += 1  # our own: our flags know about it
            self.words[EVICTIONS] += 1
            freed = sum(self.columns[c].row_bytes for c in here) * (stop - start)
            freed += int(self.records[piece, _TEXT_BYTES])
            self.records[piece, _TEXT_BYTES] = 0
            self.words[RESIDENT] = max(self.words[RESIDENT] - freed, 0)
        # Pages shared with neighbours go only if these hold nothing, and are not being filled.
        with self.locks.try_run(first, piece) as left_is_ours:
            first = self._empty_from(first, piece) if left_is_ours else piece
            with self.locks.try_run(piece + 1, last + 1) as right_is_ours:
                last = self._empty_to(last, piece) if right_is_ours else piece
                left = self.layout.bounds(first, stop)[0]
                right = self.layout.bounds(last, self._reserved)[1]
                for c in here:
                    self.columns[c].punch(start, stop, piece, left=left, right=right)

    def _around(self, piece: int, start: int, stop: int) -> tuple[int, int]:
        """First and last piece that may share a page with one."""
        if not self.layout.is_uniform:
            return piece, piece
        # A page holds at most PAGE rows of one byte, so no further neighbour can share it.
        first = self.layout.piece_of(max(start - PAGE + 1, 0))
        last = min(self.layout.piece_of(stop + PAGE - 2), len(self.present) - 1)
        return min(first, piece), max(last, piece)

    def _empty_from(self, first: int, piece: int) -> int:
        """First of the absent pieces just before one."""
        there = np.flatnonzero(self.present[first:piece].any(axis=1))
        return first + int(there[-1]) + 1 if there.size else first

    def _empty_to(self, last: int, piece: int) -> int:
        """Last of the absent pieces just after one."""
        there = np.flatnonzero(self.present[piece + 1 : last + 1].any(axis=1))
        return piece + int(there[0]) if there.size else last

    # -- for the writer ----------------------------------------------------------------------

    def dirty_state(self, piece: int) -> int:
        """`CLEAN`, `APPENDED` or `REWRITTEN`."""
        return int(self.records[piece, _DIRTY])

    def dirty_pieces(self) -> list[int]:
        """Pieces newer than their files, ascending."""
        dirty: list[int] = np.flatnonzero(self.records[:, _DIRTY]).tolist()
        return dirty

    def only_appended(self, pieces: Sequence[int]) -> list[int]:
        """Those of some pieces that are `APPENDED`."""
        where = np.asarray(pieces)
        found: list[int] = where[self.records[where, _DIRTY] == APPENDED].tolist()
        return found

    def mark_dirty(self, pieces: Sequence[int] | NDArray[np.int64], state: int) -> None:
        """Says, before their values change, that pieces will be newer than their files."""
        where = np.asarray(pieces)
        self.records[where, _DIRTY] = np.maximum(self.records[where, _DIRTY], state)

    def mark_clean(self, piece: int) -> None:
        """Says that a piece equals its file."""
        self.records[piece, _DIRTY] = CLEAN

    def changed(self, piece: int) -> int:
        """Commit that last changed rows which the piece's file had before, 0 for none known."""
        return int(self.records[piece, _CHANGED])

    def note_changed(self, piece: int, generation: int) -> None:
        """Says which commit changed rows of a piece; survives the process."""
        self.records[piece, _CHANGED] = generation

    def admit(self, piece: int, keep: NDArray[np.int64]) -> None:
        """Makes a piece present that has no file yet, or is about to be overwritten as a whole.

        Args:
            piece: Its number.
            keep: Pieces that must not be evicted for it: those of the same call.
        """
        with self.locks.mutex:
            self.back(piece, keep)
            if not self.present[piece].all():
                self._clear_stale(piece, range(len(self.columns)))
                with self.locks.allocation():
                    self.words[RESIDENT] += self._piece_bytes
                    self.words[ORDER] += 1
                    self.records[piece, _ORDER] = self.words[ORDER]
                self.present[piece] = 1
                if self.words[RESIDENT] > self.budget_bytes:
                    self.evict(0, keep)
            self._mark_ready(piece)

    def back_all(self, pieces: NDArray[np.int64]) -> None:
        """Backs the pieces of one call with space; none of them is evicted for it."""
        for piece in pieces[~self._backed[pieces]].tolist():
            self.back(piece, pieces)

    def back(self, piece: int, keep: NDArray[np.int64] | None = None) -> None:
        """Backs a piece's whole range with space, so that stores into it cannot fail.

        Args:
            piece: Its number.
            keep: Pieces that must not be evicted when the disk is full; None evicts none.
        """
        if self._backed[piece]:
            return
        start = piece * self.layout.piece_size
        stop = start + self.layout.piece_size
        try:
            for column in self.columns:
                column.allocate(start, stop)
        except StorageSpaceError:
            if keep is None:
                raise
            self.evict(self.budget_bytes, keep)
            for column in self.columns:
                column.allocate(start, stop)
        self._backed[piece] = True

    def drop(self, piece: int) -> None:
        """Empties a piece whose rows no longer exist, dirty or not."""
        with self.locks.mutex, self.locks.piece(piece):
            self.records[piece, _DIRTY] = CLEAN
            if self.present[piece].any():
                self._empty(piece)

    def note_texts(self, piece: int, count: int) -> None:
        """Adds bytes of text that the writer stored for a piece to the budget's account."""
        with self.locks.mutex, self.locks.allocation():
            self.words[RESIDENT] += count
            self.records[piece, _TEXT_BYTES] += count

    def text_bytes(self, piece: int) -> int:
        """Bytes of text on a piece's account, dead ones included."""
        return int(self.records[piece, _TEXT_BYTES])

    @property
    def resident_bytes(self) -> int:
        """Bytes of decoded rows and texts in the bank."""
        return int(self.words[RESIDENT])

    def present_pieces(self) -> list[int]:
        """Pieces of which some column is decoded."""
        count = min(self.layout.count(self.rows), len(self.present))
        found: list[int] = np.flatnonzero(self.present[:count].any(axis=1)).tolist()
        return found
