"""What a forked child of a writer reads: its parent's rows as they are now, and nothing changed.

The parent's bank is its working set: only the parent may fill, empty or store to it. A child
copies pieces that are present, and decodes the others from their files, like any reader, into
a bank outside the data set. It notes the parent's counters around each copy, so that it sees no
row that is being overwritten or emptied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unienv_data.bank.bank import EVICTIONS, GONE, WRITES, Bank
from unienv_data.bank.columns import TextColumn
from unienv_data.bank.journal import ROWS
from unienv_data.base.indexing import RowArray
from unienv_data.errors import CommitConflictError, CorruptPieceError
from unienv_data.storages._reader import Reader
from unienv_data.storages._working_set import WorkingSet

__all__ = ["ForkedBank"]

_ATTEMPTS = 10_000
_PAUSE_S = 20e-6
_LONGEST_WRITE_S = 30.0


class ForkedBank:
    """Reads from the working set of another process.

    Owns a `Reader`, opened when first needed. Rows are read as their parent has them now; rows
    that it dropped since the fork are refused.
    """

    def __init__(self, parent: WorkingSet, open_reader: Callable[[], Reader]) -> None:
        self._parent = parent
        self._bank: Bank = parent.bank
        self._open_reader = open_reader
        self._reader: Reader | None = None
        self._rows_at_fork = parent.words[ROWS] if parent.growing else 0
        self._seen = (-1, -1)
        self.layout = self._bank.layout

    def take_ready(
        self, index: NDArray[np.int64], columns: Sequence[int], length: int
    ) -> list[Any] | None:
        """None: nothing is read here without noting the parent's counters."""
        return None

    def gather(self, index: int | slice | RowArray, columns: Sequence[int]) -> list[Any]:
        """Copies rows of some columns; see `Bank.gather`.

        Raises:
            CommitConflictError: The parent dropped the rows, or overwrites them without pause.
        """
        words = self._bank.words
        pieces = self._bank._pieces(index)
        for _ in range(_ATTEMPTS):
            self._wait_for_the_writer()
            seen = (words[WRITES], words[EVICTIONS])
            if seen[0] % 2 and not words[GONE]:
                continue
            if seen != self._seen:
                self._forget_texts(seen)
            try:
                self._check_dropped(index)
                result = self._copy(index, columns, pieces)
                self._check_dropped(index)
            except CorruptPieceError:
                # Text of a piece that was emptied meanwhile; anything else is raised again.
                if seen == (words[WRITES], words[EVICTIONS]):
                    raise
                continue
            if result is not None and seen == (words[WRITES], words[EVICTIONS]):
                return result
        raise CommitConflictError(
            "get: the parent process overwrites rows faster than they can be read; open the "
            "directory read-only in this process"
        )

    def _wait_for_the_writer(self) -> None:
        """Waits while the parent overwrites; it may have been stopped in the middle of it."""
        words = self._bank.words
        deadline = 0.0
        while words[WRITES] % 2 and not words[GONE]:
            now = time.monotonic()
            deadline = deadline or now + _LONGEST_WRITE_S
            if now > deadline:
                raise CommitConflictError(
                    "get: the parent process stopped while it was overwriting rows; open the "
                    "directory read-only in this process"
                )
            time.sleep(_PAUSE_S)

    def _forget_texts(self, seen: tuple[int, int]) -> None:
        self._seen = seen
        for column in self._bank.columns:
            if isinstance(column, TextColumn):
                column.heap.forget_decoded()

    def _check_dropped(self, index: int | slice | RowArray) -> None:
        alive = self._parent.words[ROWS]
        if not self._parent.growing or alive >= self._rows_at_fork:
            return
        rows = _rows_of(index)
        dropped = rows[(rows >= alive) & (rows < self._rows_at_fork)]
        if dropped.size:
            raise CommitConflictError(
                f"get: row {int(dropped[0])} was dropped by the parent process, which has {alive} "
                "rows now; open the directory again",
                expected=self._rows_at_fork,
                found=alive,
            )

    def _copy(
        self, index: int | slice | RowArray, columns: Sequence[int], pieces: NDArray[np.int64]
    ) -> list[Any] | None:
        """The rows, or None when a file was replaced while it was looked for."""
        bank = self._bank
        there: NDArray[np.bool_]
        there = np.all(bank.present[pieces][:, np.asarray(columns)], axis=1)
        if bank.words[GONE]:
            there[:] = False
        if there.all():
            return bank._copy(index, columns)
        rows = _rows_of(index)
        here = np.isin(bank.layout.pieces_of(rows), pieces[there])
        results = [bank.columns[c].column.zeros(len(rows)) for c in columns]
        if here.any():
            for result, part in zip(results, bank._copy(rows[here], columns), strict=True):
                result[here] = part
        try:
            self._fill_from_files(rows, ~here, columns, results)
        except CommitConflictError:
            if self._reader is not None:
                self._reader.refresh()
            return None
        return [result[0] for result in results] if isinstance(index, int) else results

    def _fill_from_files(
        self,
        rows: NDArray[np.int64],
        wanted: NDArray[np.bool_],
        columns: Sequence[int],
        results: list[Any],
    ) -> None:
        if self._reader is None:
            self._reader = self._open_reader()
        reader = self._reader
        # A piece leaves the parent's bank only after a manifest counts it.
        reader.refresh()
        wanted = wanted & (rows < reader.manifest.num_rows)  # the others were never set: zeros
        where = np.flatnonzero(wanted)
        if where.size:
            found = reader.bank.gather(rows[where], columns)
            for result, part in zip(results, found, strict=True):
                result[where] = part

    def present_pieces(self) -> list[int]:
        """Pieces of which some column is decoded in the parent's bank."""
        return self._bank.present_pieces()

    def dirty_pieces(self) -> list[int]:
        """Pieces that the parent has not sealed."""
        return self._bank.dirty_pieces()

    def after_fork(self) -> None:
        """In a grandchild."""
        self._bank.after_fork()
        if self._reader is not None:
            self._reader.bank.after_fork()

    def close(self) -> None:
        """Closes what this process opened; the parent's bank is left to its owner."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _rows_of(index: int | slice | RowArray) -> NDArray[np.int64]:
    if isinstance(index, slice):
        return np.arange(index.start, index.stop)
    return np.atleast_1d(np.asarray(index, dtype=np.int64))
