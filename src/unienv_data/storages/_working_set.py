"""Rows on their way: prepared pieces, all-or-nothing writes, and what a dead writer left.

Methods are called with the storage's lock held.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from unienv_data.bank.bank import APPENDED, REWRITTEN, Bank
from unienv_data.bank.columns import TextColumn
from unienv_data.bank.journal import (
    ACTIVE,
    BOUND,
    HEAD,
    MAGIC,
    MAINTAINED,
    ROWS,
    TAIL,
    Journal,
    StorageLedger,
)
from unienv_data.base.indexing import RowArray
from unienv_data.format.codec import ColumnData, Texts
from unienv_data.format.layout import Layout
from unienv_data.format.manifest import LedgerRecord, Manifest
from unienv_data.format.schema import Column
from unienv_data.storages._pieces import PieceFiles, clip

__all__ = ["Window", "WorkingSet"]

_TEXT_BYTES = 32 << 10  # of text on a piece's account before it is looked at


class _CommittedPieces(PieceFiles):
    """A writer's pieces: what the manifest counts, and nothing beyond."""

    @override
    def load(self, piece: int, columns: Sequence[int]) -> list[ColumnData] | None:
        data = super().load(piece, columns)
        # Of a commit whose record is gone: its other pieces may not have been renamed.
        self.check_snapshot(piece, self.changed_by(piece))
        counted = self.counted(piece)
        return None if data is None else [clip(values, counted) for values in data]


class Window:
    """Rows ``[start, stop)`` of one piece that may be stored to without preparation.

    Shared by the storage, which appends, and the writer, which shuts it whenever it seals.
    """

    __slots__ = ("start", "stop")

    def __init__(self) -> None:
        self.start = self.stop = 0

    def shut(self) -> None:
        """Lets nothing be stored any more."""
        self.stop = 0


class WorkingSet:
    """The bank and journal of one writer.

    Owns their files. Rows become durable by the journal's counts: appended ones when the count
    moves, overwritten ones when the redo record is valid.
    """

    def __init__(
        self, bank_directory: Path, storage_directory: Path, manifest: Manifest, budget_bytes: int
    ) -> None:
        """Opens the files, or makes them; `recover` afterwards when they were adopted."""
        self.layout = Layout(manifest.piece_size)
        self.growing = manifest.capacity is None
        self.pieces: PieceFiles = _CommittedPieces(storage_directory, manifest, self.layout, None)
        self.window = Window()
        self.bank = Bank(
            bank_directory,
            manifest.schema,
            self.layout,
            self.pieces,
            rows=manifest.num_rows,
            budget_bytes=budget_bytes,
            exclusive=True,
        )
        self.journal = Journal(bank_directory, manifest.uuid or "", manifest.num_rows)
        self.words = self.journal.words
        self.ledger = StorageLedger(self.journal, growing=self.growing)
        self.ledger.generation = manifest.generation
        self.ledger.shortened = manifest.shortened
        self._versions: dict[int, int] = {}
        self._compact_at: dict[int, int] = {}

    @property
    def rows(self) -> int:
        """Rows with values: all of a bounded storage, whose unset rows are zeros."""
        return self.words[ROWS] if self.growing else self.pieces.manifest.num_rows

    def version(self, piece: int) -> int:
        """A number that grows whenever rows of a piece change: what was encoded before is void."""
        return self._versions.get(piece, 0)

    def touch(self, piece: int) -> None:
        """Voids what is being sealed, or was just sealed, of a piece."""
        self._versions[piece] = self.version(piece) + 1

    def forget_version(self, piece: int) -> None:
        """Drops the version of a piece that is counted: an endless recording keeps none of them.

        What is still being encoded of it is void all the same: the piece is clean, or rewritten.
        """
        self._versions.pop(piece, None)

    # -- opening -----------------------------------------------------------------------------

    def adopt_ledger(self, record: LedgerRecord) -> None:
        """Takes the ring position over from the manifest, after a clean close."""
        if not self.growing:
            self.words[HEAD] = record.head
            self.words[TAIL] = record.tail
        self.words[MAINTAINED] = int(record.maintained)
        self.words[BOUND] = 1

    def recover(self) -> None:
        """Finishes the call that was in flight, and forgets what was never counted."""
        words = self.words
        self.bank.set_rows(max(words[ROWS], self.bank.rows))
        with self.bank.overwriting():
            self.journal.apply(self.bank)
        words[ACTIVE] = -1
        if not self.growing:
            if words[HEAD] < words[TAIL]:
                words[TAIL] = words[HEAD]
            self.journal.drop_segments_after(words[HEAD])
            return
        words[TAIL] = 0
        self.bank.set_rows(words[ROWS])
        self.journal.drop_segments_after(words[ROWS])
        self.clear_beyond(words[ROWS])

    # -- writing -----------------------------------------------------------------------------

    def write(
        self,
        where: slice | RowArray,
        values: Sequence[Any],
        *,
        head: int,
        tail: int,
        gives_up: bool,
    ) -> tuple[Sequence[int], bool]:
        """Stores checked rows, all or none; see `Writer.write`.

        Returns:
            The pieces that changed, and whether rows that counted were overwritten.
        """
        pieces_of_rows = None
        touched: Sequence[int]
        if isinstance(where, slice):
            touched = self.layout.span(where.start, where.stop)
            first, last = where.start, where.stop
        else:
            pieces_of_rows = self.layout.pieces_of(where)
            touched = np.unique(pieces_of_rows).tolist()
            first, last = int(where.min()), int(where.max()) + 1
        rows = self.rows
        overwrites = first < rows if self.growing else gives_up
        if self.growing and last > rows and (first > rows or pieces_of_rows is not None):
            # Rows skipped now count as zeros, so their pieces are sealed as well.
            self.prepare(self.layout.span(rows, last), None)
        self.prepare(touched, where if isinstance(where, slice) else None)
        staged = self._stage(where, pieces_of_rows, values, touched)
        new_rows = max(rows, last) if self.growing else -1
        if overwrites:
            self.journal.record(where, staged, rows=new_rows, head=head, tail=tail)
        with self.bank.overwriting() if overwrites else nullcontext():
            for column, data in zip(self.bank.columns, staged, strict=True):
                column.put(where, data)
            self.journal.settle(new_rows, head, tail)
        for piece in touched:
            self.touch(piece)
        self.window.shut()
        if overwrites:
            self._compact(touched)
        if self.growing and last > rows:
            self.bank.set_rows(max(self.bank.rows, last))
        return touched, overwrites

    def _stage(
        self,
        where: slice | RowArray,
        pieces_of_rows: NDArray[np.int64] | None,
        values: Sequence[Any],
        touched: Sequence[int],
    ) -> list[NDArray[Any]]:
        staged = []
        pieces: list[int] | None = None
        for column, data in zip(self.bank.columns, values, strict=True):
            if isinstance(column, TextColumn):
                if pieces is None:
                    if pieces_of_rows is None:
                        span = np.arange(where.start, where.stop)  # type: ignore[union-attr]
                        pieces_of_rows = self.layout.pieces_of(span)
                    pieces = pieces_of_rows.tolist()
                staged.append(column.stage(pieces, data))
                share = (sum(map(len, data)) + 8 * len(data)) // len(touched)
                for piece in touched:
                    self.bank.note_texts(piece, share)
            else:
                staged.append(column.stage((), data))
        return staged

    def prepare(self, pieces: Sequence[int], whole: slice | None) -> None:
        """Makes pieces present, backed with space, and dirty, before their values change."""
        size = self.layout.piece_size
        counted = self._counted()
        kept = np.asarray(pieces)
        self.bank.reserve((int(kept.max()) + 1) * size)
        missing = kept[~self.bank.present[kept].all(axis=1)].tolist()
        absent = []
        for piece in missing:
            start, stop = piece * size, (piece + 1) * size
            covered = whole is not None and whole.start <= start and whole.stop >= stop
            if start < counted and not covered:
                absent.append(piece)
            else:
                self.bank.admit(piece, kept)
        if absent:
            every = range(len(self.bank.columns))
            self.bank.fault(np.array(absent), every, keep=kept)
        self.bank.back_all(kept)
        rewritten, fresh = kept[kept * size < counted], kept[kept * size >= counted]
        if rewritten.size:
            # A last, partial piece that only gets further rows is extended, not rewritten.
            partial = counted // size if counted % size else -1
            first = whole.start if whole is not None else -1
            if rewritten.tolist() == [partial] and first >= counted:
                self.bank.mark_dirty(rewritten, APPENDED)
            else:
                self.bank.mark_dirty(rewritten, REWRITTEN)
        if fresh.size:
            self.bank.mark_dirty(fresh, APPENDED)

    def _counted(self) -> int:
        manifest = self.pieces.manifest
        return manifest.num_rows if manifest.is_materialized else 0

    def _compact(self, pieces: Sequence[int]) -> None:
        """Rewrites the texts of pieces of which overwriting has left too many dead ones."""
        texts = [column for column in self.bank.columns if isinstance(column, TextColumn)]
        for piece in pieces if texts else ():
            stored = self.bank.text_bytes(piece)
            if stored <= self._compact_at.get(piece, _TEXT_BYTES):
                continue
            start, stop = self.layout.bounds(piece, self.bank.rows)
            with self.bank.overwriting():
                alive = sum(column.compact(piece, start, stop) for column in texts)
            self.bank.note_texts(piece, alive - stored)
            # A multiple of what is alive: the work a byte written stays the same.
            self._compact_at[piece] = max(_TEXT_BYTES, 3 * alive)

    def open_window(self, row: int) -> None:
        """Prepares the piece of a row for appends one at a time, and opens `window` on it."""
        piece = self.layout.piece_of(row)
        stop = (piece + 1) * self.layout.piece_size
        if not self.growing:
            stop = min(stop, self.rows)
        self.prepare([piece], slice(row, row + 1))
        self.touch(piece)
        if not self.growing:
            self._compact([piece])  # the texts of the ring's last round are dead
        self.window.start, self.window.stop = row, stop

    def clear_beyond(self, rows: int) -> None:
        """Makes bank rows beyond the counted ones read as zeros again."""
        with self.bank.overwriting():
            self._clear_beyond(rows)

    def _clear_beyond(self, rows: int) -> None:
        size = self.layout.piece_size
        first = self.layout.count(rows)
        for piece in np.flatnonzero(self.bank.present.any(axis=1)).tolist():
            if piece >= first:
                self.bank.drop(piece)
        if rows % size:
            piece = rows // size
            if self.bank.present[piece].any():
                self.bank.back(piece)
                for column in self.bank.columns:
                    column.clear(rows, (piece + 1) * size)

    # -- for sealing -------------------------------------------------------------------------

    def view(self, piece: int) -> list[ColumnData]:
        """Rows of a piece that have values, a column each; may alias the bank."""
        start, stop = self.layout.bounds(piece, self.rows)
        if not self.bank.present[piece].all():  # never set: zeros, and no hole is read for them
            return [_unset(column.column, stop - start) for column in self.bank.columns]
        return [column.view(start, stop) for column in self.bank.columns]

    def ensure_whole(self, pieces: Sequence[int]) -> None:
        """Brings absent columns of dirty pieces in, before they are encoded."""
        missing = [piece for piece in pieces if not self.bank.present[piece].all()]
        if missing:
            every = range(len(self.bank.columns))
            self.bank.fault(np.array(missing), every, keep=np.asarray(pieces))

    def close(self, *, remove: bool) -> None:
        """Drops the mappings, and the files when asked."""
        if remove:
            # First: files are removed one at a time, and half of them must never be adopted.
            self.journal.words[MAGIC] = 0
        self.journal.close()
        self.bank.close(remove=remove)


def _unset(column: Column, count: int) -> ColumnData:
    return Texts([""], np.zeros(count, np.int64)) if column.is_text else column.zeros(count)
