"""One reading of every index kind, checked once.

`normalize` turns ``int | slice | ... | mask | sequence | array`` into one of three plain forms
that storages work on: a row number, a contiguous range, or int64 rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unienv_data.errors import RowIndexError, RowIndexTypeError

__all__ = ["Normalized", "RowArray", "normalize"]

RowArray: TypeAlias = NDArray[np.int64]
Normalized: TypeAlias = "int | slice | RowArray"

_INT64 = np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)
_MAXIMUM = np.maximum.reduce  # a third faster than `.max()` on a batch


def normalize(index: Any, length: int, place: str = "storage") -> int | slice | RowArray:
    """Checks an index and gives it in a plain form.

    Args:
        index: An int (negative allowed), a slice of any step, ``...``, a 1-D integer array, list,
            tuple or range (negative entries, repeats and any order allowed), or a boolean mask of
            exactly `length` entries.
        length: Number of rows.
        place: Named in errors.

    Returns:
        An ``int`` in ``[0, length)``; or a slice ``start:stop`` of step 1 with
        ``0 <= start <= stop <= length``; or an int64 array of rows in ``[0, length)``.

    Raises:
        RowIndexError: A row lies outside, or a mask has another length.
        RowIndexTypeError: The index is a bool, a float, nested, an object array or a string.
    """
    if type(index) is np.ndarray:
        is_rows = index.dtype is _INT64 and index.ndim == 1 and index.shape[0] > 0
        # One pass checks both ends: read as unsigned, negative rows are beyond any length.
        if is_rows and int(_MAXIMUM(index.view(_UINT64))) < length:
            return index
        return _from_array(index, length, place)
    if isinstance(index, (bool, np.bool_)):
        raise RowIndexTypeError(
            f"index of {place}: a bool is no row number; use an int, or a mask of {length} bools",
            found=index,
        )
    if isinstance(index, (int, np.integer)):
        return _from_int(int(index), length, place)
    if isinstance(index, slice):
        return _from_slice(index, length, place)
    if index is Ellipsis:
        return slice(0, length)
    if isinstance(index, range):
        if index.step == 1 and 0 <= index.start <= index.stop <= length:
            return slice(index.start, index.stop)
        return _from_array(np.arange(index.start, index.stop, index.step), length, place)
    if isinstance(index, np.ndarray):
        return _from_array(np.asarray(index), length, place)
    if isinstance(index, (list, tuple)):
        return _from_sequence(index, length, place)
    if hasattr(index, "__array__") and hasattr(index, "ndim"):  # tensors of other backends
        return _from_array(np.asarray(index), length, place)
    raise RowIndexTypeError(
        f"index of {place}: {type(index).__name__} does not name rows; use an int, a slice, "
        f"'...', a 1-D integer array or a mask of {length} bools",
        found=type(index).__name__,
    )


def _from_int(index: int, length: int, place: str) -> int:
    row = index + length if index < 0 else index
    if not 0 <= row < length:
        raise RowIndexError(
            f"index of {place}: row {index} is out of range for {length} rows",
            found=index,
            length=length,
        )
    return row


def _from_slice(index: slice, length: int, place: str) -> slice | RowArray:
    try:
        start, stop, step = index.indices(length)
    except (TypeError, ValueError) as error:
        raise RowIndexTypeError(f"index of {place}: {error}", found=repr(index)) from error
    if step == 1:
        return slice(start, max(start, stop))
    return np.arange(start, stop, step, dtype=np.int64)


def _from_sequence(index: Sequence[Any], length: int, place: str) -> int | RowArray:
    if not index:
        return np.empty(0, dtype=np.int64)
    bools = [isinstance(entry, (bool, np.bool_)) for entry in index]
    if all(bools):
        return _from_array(np.array(index, dtype=np.bool_), length, place)
    if any(bools) or not all(isinstance(entry, (int, np.integer)) for entry in index):
        raise RowIndexTypeError(
            f"index of {place}: a sequence must hold only ints, or only bools",
            found=type(index).__name__,
        )
    out_of_range = [entry for entry in index if not -length <= int(entry) < length]
    if out_of_range:
        raise RowIndexError(
            f"index of {place}: row {int(out_of_range[0])} is out of range for {length} rows",
            found=int(out_of_range[0]),
            length=length,
        )
    return _from_array(np.array(index, dtype=np.int64), length, place)


def _from_array(index: NDArray[Any], length: int, place: str) -> int | RowArray:
    if index.ndim == 0 and index.dtype.kind in "iu":
        return _from_int(int(index), length, place)
    if index.ndim != 1:
        raise RowIndexTypeError(
            f"index of {place}: expected a 1-D array, got shape {index.shape}",
            expected=(None,),
            found=index.shape,
        )
    kind = index.dtype.kind
    if kind == "b":
        if index.shape[0] != length:
            raise RowIndexError(
                f"index of {place}: a mask needs {length} entries, got {index.shape[0]}",
                expected=length,
                found=index.shape[0],
            )
        return np.flatnonzero(index)
    if kind not in "iu":
        if index.shape[0] == 0:
            return np.empty(0, dtype=np.int64)
        raise RowIndexTypeError(
            f"index of {place}: expected integers or bools, got an array of {index.dtype}",
            found=str(index.dtype),
        )
    if index.shape[0] == 0:
        return np.empty(0, dtype=np.int64)
    # Extremes are compared as Python ints, so that uint64 cannot wrap into range.
    low, high = int(index.min()), int(index.max())
    if low < -length or high >= length:
        wrong = high if high >= length else low
        raise RowIndexError(
            f"index of {place}: row {wrong} is out of range for {length} rows",
            found=wrong,
            length=length,
        )
    rows = index if index.dtype == _INT64 and index.dtype.isnative else index.astype(np.int64)
    if low < 0:
        rows = np.where(rows < 0, rows + length, rows)
    return rows
