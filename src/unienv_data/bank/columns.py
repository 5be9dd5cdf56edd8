"""One flat mapped column a key: row i at byte ``i * row_bytes``, however many pieces there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unienv_data.bank.heap import TextHeap
from unienv_data.bank.locks import BankLocks
from unienv_data.base.indexing import RowArray
from unienv_data.format.codec import ColumnData, Texts
from unienv_data.format.schema import Column
from unienv_data.io.mapped import PAGE, MappedFile

__all__ = ["BankColumn", "EmptyColumn", "NumberColumn", "Taker", "TextColumn", "open_column"]

Taker: TypeAlias = Callable[[RowArray, int], NDArray[Any]]
"""Copies rows along axis 0 and refuses rows out of bounds by `IndexError`."""

# Above this, one write call is faster than faulting the pages in by storing to them.
_WRITE_CALL_BYTES = 16 << 10


class BankColumn(Protocol):
    """What the bank asks of a column. Values are those that `Column.check_*` returns."""

    column: Column
    row_bytes: int

    @property
    def target(self) -> NDArray[Any]:
        """The mapped rows, for stores of single staged values."""
        ...

    @property
    def file_bytes(self) -> int:
        """Length of its files, holes included."""
        ...

    def reserve(self, rows: int) -> None:
        """Maps at least `rows` rows."""

    def allocate(self, start: int, stop: int) -> None:
        """Backs rows with disk space."""

    def take(self, rows: RowArray) -> NDArray[Any]:
        """Copies rows, shape ``(B, *shape)``."""

    def taker(self, length: int) -> Taker:
        """A function that takes any of the first `length` rows, as numpy's `take` does."""

    def copy(self, start: int, stop: int) -> NDArray[Any]:
        """Copies a contiguous range of rows."""

    def item(self, row: int) -> Any:
        """One row's value: a numpy scalar, a new array, or a `str`."""

    def stage(self, pieces: Sequence[int], values: Any) -> NDArray[Any]:
        """Turns checked batch values into what the file holds; for text, codes in `pieces`."""

    def put(self, where: slice | RowArray, staged: NDArray[Any]) -> None:
        """Stores staged values."""

    def fill(self, piece: int, start: int, data: ColumnData) -> None:
        """Writes the decoded rows of a piece."""

    def view(self, start: int, stop: int) -> ColumnData:
        """Rows for encoding; may alias the file."""

    def clear(self, start: int, stop: int) -> None:
        """Makes rows read as zeros."""

    def punch(self, start: int, stop: int, piece: int, *, left: int, right: int) -> None:
        """Gives the space of a piece back.

        Rows ``[left, start)`` and ``[stop, right)`` hold nothing either, so pages that reach
        into them may go too.
        """

    def close(self) -> None:
        """Drops the mappings."""


class NumberColumn:
    """Numbers or bools of fixed shape."""

    def __init__(self, column: Column, path: Path, rows: int, *, create: bool) -> None:
        self.column = column
        self.row_bytes = column.row_bytes
        self._file = MappedFile(path, rows * self.row_bytes, create=create)
        self._map()

    def _map(self) -> None:
        rows = self._file.size // self.row_bytes
        self.array = self._file.array(self.column.dtype, (rows, *self.column.shape))

    @property
    def file_bytes(self) -> int:
        """See `BankColumn`."""
        return self._file.size

    @property
    def target(self) -> NDArray[Any]:
        """See `BankColumn`."""
        return self.array

    def reserve(self, rows: int) -> None:
        """See `BankColumn`."""
        if self._file.reserve(rows * self.row_bytes):
            self._map()

    def allocate(self, start: int, stop: int) -> None:
        """See `BankColumn`."""
        self._file.allocate(start * self.row_bytes, (stop - start) * self.row_bytes)

    def take(self, rows: RowArray) -> NDArray[Any]:
        """See `BankColumn`."""
        # Rows are in bounds already; clipping spares numpy a check and a buffer.
        taken: NDArray[Any] = self.array.take(rows, 0, None, "clip")
        return taken

    def taker(self, length: int) -> Taker:
        """See `BankColumn`."""
        return self.array[:length].take

    def copy(self, start: int, stop: int) -> NDArray[Any]:
        """See `BankColumn`."""
        return np.array(self.array[start:stop])

    def item(self, row: int) -> Any:
        """See `BankColumn`."""
        value = self.array[row]
        return value.copy() if self.column.shape else value

    def stage(self, pieces: Sequence[int], values: Any) -> NDArray[Any]:
        """See `BankColumn`."""
        staged: NDArray[Any] = values
        return staged

    def put(self, where: slice | RowArray, staged: NDArray[Any]) -> None:
        """See `BankColumn`."""
        if (
            isinstance(where, slice)
            and staged.nbytes >= _WRITE_CALL_BYTES
            and staged.flags.c_contiguous
        ):
            self._file.write(where.start * self.row_bytes, staged.reshape(-1).view(np.uint8))
        else:
            self.array[where] = staged

    def fill(self, piece: int, start: int, data: ColumnData) -> None:
        """See `BankColumn`."""
        values = np.ascontiguousarray(data)
        self._file.write(start * self.row_bytes, values.reshape(-1).view(np.uint8))

    def view(self, start: int, stop: int) -> NDArray[Any]:
        """See `BankColumn`."""
        return self.array[start:stop]

    def clear(self, start: int, stop: int) -> None:
        """See `BankColumn`."""
        self.array[start:stop] = 0

    def punch(self, start: int, stop: int, piece: int, *, left: int, right: int) -> None:
        """See `BankColumn`."""
        begin, end = start * self.row_bytes, stop * self.row_bytes
        # A page shared with a neighbour may go only when the neighbour's part is empty as well.
        page_begin, page_end = begin // PAGE * PAGE, -(-end // PAGE) * PAGE
        if left * self.row_bytes <= page_begin:
            begin = page_begin
        if right * self.row_bytes >= page_end:
            end = page_end
        self._file.punch(begin, end - begin)

    def close(self) -> None:
        """See `BankColumn`."""
        del self.array
        self._file.close()


class TextColumn:
    """Texts: an 8-byte code a row, and a heap of the distinct texts of each piece."""

    def __init__(
        self, column: Column, path: Path, rows: int, locks: BankLocks, piece_rows: int, create: bool
    ) -> None:
        self.column = column
        self.row_bytes = 8
        codes = Column(column.name, np.dtype(np.int64))
        self.codes = NumberColumn(codes, path, rows, create=create)
        self.heap = TextHeap(path.with_suffix(""), locks, create=create)
        self._piece_rows = piece_rows

    @property
    def file_bytes(self) -> int:
        """See `BankColumn`."""
        return self.codes.file_bytes + self.heap.file_bytes

    @property
    def target(self) -> NDArray[Any]:
        """See `BankColumn`."""
        return self.codes.array

    def reserve(self, rows: int) -> None:
        """See `BankColumn`."""
        self.codes.reserve(rows)

    def allocate(self, start: int, stop: int) -> None:
        """See `BankColumn`."""
        self.codes.allocate(start, stop)

    def take(self, rows: RowArray) -> NDArray[Any]:
        """See `BankColumn`."""
        return self._decode(self.codes.take(rows))

    def taker(self, length: int) -> Taker:
        """See `BankColumn`."""
        take = self.codes.taker(length)
        return lambda rows, axis: self._decode(take(rows, axis))

    def copy(self, start: int, stop: int) -> NDArray[Any]:
        """See `BankColumn`."""
        return self._decode(self.codes.copy(start, stop))

    def _decode(self, codes: NDArray[Any]) -> NDArray[Any]:
        result = np.empty(len(codes), dtype=object)
        result[:] = self.heap.texts(codes.tolist())
        return result

    def item(self, row: int) -> str:
        """See `BankColumn`."""
        return self.heap.text(int(self.codes.array[row]))

    def stage(self, pieces: Sequence[int], values: Any) -> NDArray[Any]:
        """See `BankColumn`: stores texts under the piece of their row, and gives the codes."""
        by_piece: dict[int, list[int]] = {}
        for position, piece in enumerate(pieces):
            by_piece.setdefault(piece, []).append(position)
        codes = np.empty(len(values), dtype=np.int64)
        for piece, positions in by_piece.items():
            codes[positions] = self.heap.store(piece, [values[position] for position in positions])
        return codes

    def put(self, where: slice | RowArray, staged: NDArray[Any]) -> None:
        """See `BankColumn`."""
        self.codes.put(where, staged)

    def fill(self, piece: int, start: int, data: ColumnData) -> None:
        """See `BankColumn`."""
        if not isinstance(data, Texts):
            raise TypeError("a text column is filled with Texts")
        distinct = np.array(self.heap.store(piece, data.values), dtype=np.int64)
        codes = distinct[data.codes] if len(data.codes) else np.empty(0, np.int64)
        self.codes.fill(piece, start, codes)

    def view(self, start: int, stop: int) -> Texts:
        """See `BankColumn`."""
        distinct, codes = np.unique(self.codes.array[start:stop], return_inverse=True)
        return Texts(self.heap.texts(distinct.tolist()), codes.reshape(-1))

    def clear(self, start: int, stop: int) -> None:
        """See `BankColumn`."""
        self.codes.clear(start, stop)

    def compact(self, piece: int, start: int, stop: int) -> int:
        """Rewrites a piece's texts without the dead ones, and gives the bytes of those alive.

        Each code moves by one aligned store while old and new texts both exist, so a kill at any
        point leaves every row readable.
        """
        owned = self.heap.extents_of(piece)
        self.heap.free(piece, ())  # forget the half-filled extent: new texts go to new ones
        alive = self.view(start, stop)
        codes = np.array(self.heap.store(piece, alive.values), dtype=np.int64)
        self.codes.array[start:stop] = codes[alive.codes]
        self.heap.free(piece, owned)
        return sum(len(text) + 8 for text in alive.values)

    def punch(self, start: int, stop: int, piece: int, *, left: int, right: int) -> None:
        """See `BankColumn`."""
        self.codes.punch(start, stop, piece, left=left, right=right)
        self.heap.free(piece)

    @property
    def heap_bytes(self) -> int:
        """Bytes of the extents in use."""
        return self.heap.used_bytes

    def close(self) -> None:
        """See `BankColumn`."""
        self.codes.close()
        self.heap.close()


class _Nothing:
    """Stands in for an array where there are no elements to store."""

    def __setitem__(self, row: int, value: Any) -> None:
        """Keeps nothing."""


class EmptyColumn:
    """A column without elements: no file, only shapes."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.row_bytes = 0

    @property
    def file_bytes(self) -> int:
        """See `BankColumn`."""
        return 0

    @property
    def target(self) -> NDArray[Any]:
        """See `BankColumn`: takes stores and keeps nothing."""
        return _Nothing()  # type: ignore[return-value]

    def reserve(self, rows: int) -> None:
        """See `BankColumn`."""

    def allocate(self, start: int, stop: int) -> None:
        """See `BankColumn`."""

    def take(self, rows: RowArray) -> NDArray[Any]:
        """See `BankColumn`."""
        return self.column.zeros(len(rows))

    def taker(self, length: int) -> Taker:
        """See `BankColumn`."""
        return self.column.zeros(length).take

    def copy(self, start: int, stop: int) -> NDArray[Any]:
        """See `BankColumn`."""
        return self.column.zeros(stop - start)

    def item(self, row: int) -> Any:
        """See `BankColumn`."""
        return self.column.zeros(1)[0]

    def stage(self, pieces: Sequence[int], values: Any) -> NDArray[Any]:
        """See `BankColumn`."""
        return np.zeros((len(pieces), 0), np.uint8)

    def put(self, where: slice | RowArray, staged: NDArray[Any]) -> None:
        """See `BankColumn`."""

    def fill(self, piece: int, start: int, data: ColumnData) -> None:
        """See `BankColumn`."""

    def view(self, start: int, stop: int) -> NDArray[Any]:
        """See `BankColumn`."""
        return self.column.zeros(stop - start)

    def clear(self, start: int, stop: int) -> None:
        """See `BankColumn`."""

    def punch(self, start: int, stop: int, piece: int, *, left: int, right: int) -> None:
        """See `BankColumn`."""

    def close(self) -> None:
        """See `BankColumn`."""


def open_column(
    column: Column,
    directory: Path,
    number: int,
    rows: int,
    locks: BankLocks,
    piece_rows: int,
    *,
    create: bool,
) -> BankColumn:
    """Opens or creates the files of one column."""
    # Numbered, not named: a column may be called anything, a file may not.
    path = directory / f"column-{number:04d}.rows"
    if column.is_text:
        return TextColumn(column, path, rows, locks, piece_rows, create)
    if column.size == 0:
        return EmptyColumn(column)
    return NumberColumn(column, path, rows, create=create)
