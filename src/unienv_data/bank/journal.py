"""What a writer must not lose when its process dies: counts, segments, and the call in flight.

Mapped words, so that each change is one aligned store and survives the process. A call that
overwrites rows first copies the new ones into the redo record, marks it valid, applies it and
clears the mark; whoever opens the directory next applies a valid record again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unienv_data.bank.bank import Bank
from unienv_data.bank.columns import TextColumn
from unienv_data.base.indexing import RowArray
from unienv_data.io.boot import boot_number
from unienv_data.io.mapped import PAGE, MappedFile

__all__ = ["Journal", "StorageLedger"]

_MAGIC = 0x314C_4E4A_4255  # "UBJNL1"

MAGIC, UUID, BOOT, ROWS, HEAD, TAIL, ACTIVE, FIRST, END, BOUND, MAINTAINED, REDO, KNOWN = range(13)

_SEGMENT_BYTES = 16
_REDO_HEADER_WORDS = 8
_KEEP_REDO_BYTES = 16 << 20
_UNCHANGED = -1


def _uuid_word(uuid: str) -> int:
    return int.from_bytes(hashlib.sha256(uuid.encode()).digest()[:8], "little") >> 1


class Journal:
    """Counts, segments and redo record of one writable storage.

    Owns the files `journal`, `segments` and `redo` of its directory. `words[ROWS]` is the number
    of rows with values: appended rows count from the moment it moves.
    """

    def __init__(self, directory: Path, uuid: str, rows: int) -> None:
        """Opens the journal, or starts one at `rows` rows when there is none to adopt.

        A journal of another boot or another storage is not adopted: what it counts may never
        have reached the disk.
        """
        self._file = MappedFile(directory / "journal", PAGE, create=True)
        self._segments = MappedFile(directory / "segments", PAGE, create=True)
        self._redo = MappedFile(directory / "redo", PAGE, create=True)
        self.words = self._file.words()
        self.adopted = (
            self.words[MAGIC] == _MAGIC
            and self.words[UUID] == _uuid_word(uuid)
            and self.words[BOOT] == boot_number()
        )
        if not self.adopted:
            self._file.allocate(0, PAGE)
            for word in range(KNOWN + 1):
                self.words[word] = 0
            self.words[ROWS] = rows
            self.words[ACTIVE] = -1
            self.words[UUID] = _uuid_word(uuid)
            self.words[BOOT] = boot_number()
            self.words[MAGIC] = _MAGIC

    @staticmethod
    def peek(directory: Path, uuid: str) -> int | None:
        """Rows that a journal counts, without opening it for writing; None when none is valid."""
        try:
            with (directory / "journal").open("rb") as file:
                raw = file.read(8 * (REDO + 1))
        except OSError:
            return None
        words = np.frombuffer(raw[: len(raw) // 8 * 8], dtype=np.int64)
        if len(words) <= REDO or words[MAGIC] != _MAGIC or words[UUID] != _uuid_word(uuid):
            return None
        return int(words[ROWS]) if words[BOOT] == boot_number() else None

    # -- redo --------------------------------------------------------------------------------

    def record(
        self,
        where: slice | RowArray,
        staged: Sequence[NDArray[Any]],
        *,
        rows: int = _UNCHANGED,
        head: int = _UNCHANGED,
        tail: int = _UNCHANGED,
    ) -> None:
        """Copies a write aside and marks it valid: from here on it happens, kill or not.

        Args:
            where: Rows to store to.
            staged: One array a column, as `BankColumn.stage` gave it.
            rows: New count of rows with values, -1 to leave it.
            head: New ledger head, -1 to leave it.
            tail: New ledger tail, -1 to leave it.

        Raises:
            StorageSpaceError: The disk is full; nothing is changed.
        """
        if isinstance(where, slice):
            header = [0, where.start, where.stop, rows, head, tail, 0, 0]
            parts: list[NDArray[Any]] = []
        else:
            header = [1, len(where), 0, rows, head, tail, 0, 0]
            parts = [np.ascontiguousarray(where)]
        parts = [np.array(header, dtype=np.int64), *parts, *map(np.ascontiguousarray, staged)]
        offset = 0
        self._redo.reserve(sum(-(-part.nbytes // 8) * 8 for part in parts))
        for part in parts:
            if part.nbytes:
                self._redo.write(offset, part.reshape(-1).view(np.uint8))
            offset += -(-part.nbytes // 8) * 8
        self.words[REDO] = 1

    def apply(self, bank: Bank) -> None:
        """Stores what the redo record holds, and clears it. Twice gives the same as once."""
        if not self.words[REDO]:
            return
        header = np.frombuffer(self._redo.read(0, 8 * _REDO_HEADER_WORDS), dtype=np.int64)
        kind, first, last, rows, head, tail = header[:6].tolist()
        offset = 8 * _REDO_HEADER_WORDS
        where: slice | RowArray
        if kind == 0:
            where, count = slice(first, last), last - first
        else:
            count = first
            where = np.frombuffer(self._redo.read(offset, 8 * count), dtype=np.int64)
            offset += 8 * count
        for column in bank.columns:
            is_text = isinstance(column, TextColumn)
            dtype = np.dtype(np.int64) if is_text else column.column.dtype
            shape = () if is_text else column.column.shape
            size = count * column.row_bytes
            if size:
                data = np.frombuffer(self._redo.read(offset, size), dtype=dtype)
                column.put(where, data.reshape((count, *shape)))
            offset += -(-size // 8) * 8
        self.settle(rows, head, tail)

    def settle(self, rows: int, head: int, tail: int) -> None:
        """Moves the counts of an applied write and clears the redo record."""
        for word, value in ((ROWS, rows), (HEAD, head), (TAIL, tail)):
            if value != _UNCHANGED:
                self.words[word] = value
        self.words[REDO] = 0
        if self._redo.size > _KEEP_REDO_BYTES:
            self._redo.punch(0, self._redo.size)

    def redo_rows(self) -> slice | RowArray | None:
        """Rows that a valid redo record is about to overwrite."""
        if not self.words[REDO]:
            return None
        header = np.frombuffer(self._redo.read(0, 24), dtype=np.int64).tolist()
        if header[0] == 0:
            return slice(header[1], header[2])
        raw = self._redo.read(8 * _REDO_HEADER_WORDS, 8 * header[1])
        return np.frombuffer(raw, dtype=np.int64)

    # -- segments ----------------------------------------------------------------------------

    def segments(self) -> list[tuple[int, int]]:
        """Closed segments as they were added, half-open."""
        first, end = self.words[FIRST], self.words[END]
        raw = self._segments.read(first * _SEGMENT_BYTES, (end - first) * _SEGMENT_BYTES)
        pairs = np.frombuffer(raw, dtype=np.int64).reshape(-1, 2)
        return [(start, stop) for start, stop in pairs.tolist()]

    def add_segment(self, start: int, stop: int) -> None:
        """Appends a segment; it counts from the moment `words[END]` moves."""
        end = self.words[END]
        offset = end * _SEGMENT_BYTES
        if offset + _SEGMENT_BYTES > self._segments.size:
            self._segments.reserve(2 * self._segments.size)
        if offset % PAGE == 0:
            self._segments.allocate(offset, PAGE)
        self._segments.store(offset, np.array([start, stop], dtype=np.int64).tobytes())
        self.words[END] = end + 1

    def forget_segments(self, before: int) -> None:
        """Drops segments that end at or before a row, and gives their space back."""
        first, end = self.words[FIRST], self.words[END]
        while first < end:
            raw = self._segments.read(first * _SEGMENT_BYTES + 8, 8)
            if int.from_bytes(raw, "little", signed=True) > before:
                break
            first += 1
        if first != self.words[FIRST]:
            old, self.words[FIRST] = self.words[FIRST], first
            self._segments.punch(
                old * _SEGMENT_BYTES // PAGE * PAGE,
                first * _SEGMENT_BYTES - old * _SEGMENT_BYTES // PAGE * PAGE,
            )

    def drop_segments_after(self, row: int) -> None:
        """Removes the newest segments that reach beyond a row; used where a call failed."""
        while self.words[END] > self.words[FIRST]:
            offset = (self.words[END] - 1) * _SEGMENT_BYTES
            start, stop = np.frombuffer(self._segments.read(offset, 16), dtype=np.int64).tolist()
            if stop <= row:
                return
            self.words[END] -= 1
            if start < row:  # it was cut, not lost
                self.add_segment(start, row)
                return

    def drop_all_segments(self) -> None:
        """Forgets every segment by one store."""
        self.words[FIRST] = self.words[END]

    def close(self) -> None:
        """Drops the mappings."""
        self.words.release()
        for file in (self._file, self._segments, self._redo):
            file.close()


class StorageLedger:
    """The `Ledger` of a storage, kept in its journal.

    In a growing storage the head *is* the count of rows with values; in a bounded one it is a
    word of its own.
    """

    def __init__(self, journal: Journal, *, growing: bool) -> None:
        self._journal = journal
        self._words = journal.words
        self._head_word = ROWS if growing else HEAD
        self._growing = growing
        self.generation = 0
        """Last commit that carries this ledger."""
        self.shortened = 0
        """Last commit that took rows away."""

    @property
    def head(self) -> int:
        """Rows ever written."""
        return self._words[self._head_word]

    @head.setter
    def head(self, value: int) -> None:
        self._words[self._head_word] = value

    @property
    def tail(self) -> int:
        """Rows ever given up."""
        return self._words[TAIL]

    @tail.setter
    def tail(self, value: int) -> None:
        self._words[TAIL] = value

    @property
    def active_start(self) -> int:
        """First row of the open segment, -1 when none is open."""
        return self._words[ACTIVE]

    @active_start.setter
    def active_start(self, value: int) -> None:
        self._words[ACTIVE] = value

    @property
    def maintained(self) -> bool:
        """Whether the owner keeps segments here."""
        return bool(self._words[MAINTAINED])

    @property
    def is_bound(self) -> bool:
        """Whether an owner uses this ledger."""
        return bool(self._words[BOUND])

    @property
    def knows_segments(self) -> bool:
        """Whether `segments` is complete; False after a clean reopen, until `reset`."""
        return bool(self._words[KNOWN])

    def segments(self) -> list[tuple[int, int]]:
        """Closed segments, oldest first."""
        return self._journal.segments()

    def add_segment(self, start: int, end: int) -> None:
        """Appends one closed segment."""
        self._journal.add_segment(start, end)

    def forget_segments(self, before: int) -> None:
        """Drops segments that end at or before a row."""
        self._journal.forget_segments(before)

    def drop_segments_after(self, row: int) -> None:
        """Removes the newest segments that reach beyond a row: their call failed."""
        self._journal.drop_segments_after(row)

    def reset(
        self, head: int, tail: int, segments: Sequence[tuple[int, int]], maintained: bool
    ) -> None:
        """Replaces everything; at every instant the buffer reads as before, empty, or as after."""
        words = self._words
        # A growing storage never gives rows up, and one whose position stays keeps showing them.
        if not self._growing and (head, tail) != (words[HEAD], words[TAIL]):
            words[TAIL] = max(words[TAIL], words[HEAD])
        words[ACTIVE] = -1
        self._journal.drop_all_segments()
        for start, end in segments:
            self._journal.add_segment(start, end)
        words[MAINTAINED] = int(maintained)
        if not self._growing:
            words[HEAD] = head
        words[TAIL] = tail
        words[KNOWN] = words[BOUND] = 1
