"""Casts that keep every value, and the refusal of all others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ValueRefusedError", "cast_exactly"]


class ValueRefusedError(Exception):
    """A value would change by being stored; the text says how."""


def cast_exactly(array: NDArray[Any], dtype: np.dtype[Any], *, rounding: bool) -> NDArray[Any]:
    """Gives `array` in `dtype`, native byte order, if no value changes.

    Args:
        array: Numbers or bools of any shape.
        dtype: A bool, integer or floating dtype.
        rounding: Allow floats to be rounded to the nearest `dtype` value, but not to overflow.
            float64 into float32 is always rounded: training code mixes the two freely.

    Returns:
        `array` itself when nothing is to be done, otherwise a new array.

    Raises:
        ValueRefusedError: A value does not fit, or the kinds do not mix (bool with numbers of other
            kinds is one-way: bools become 0 and 1, numbers never become bools).
    """
    source = array.dtype
    if source == dtype:
        return array
    if source.kind == dtype.kind and source.itemsize == dtype.itemsize:
        return array.astype(dtype)  # the other byte order
    if source.kind not in "biuf":
        raise ValueRefusedError(f"values of dtype {source} are no numbers")
    if dtype.kind == "b":
        raise ValueRefusedError(f"numbers of dtype {source} are no bools")
    # int64 to float64 counts as safe for numpy although large integers are rounded.
    if np.can_cast(source, dtype, "safe") and not (source.kind in "iu" and dtype.kind == "f"):
        return array.astype(dtype)
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
        if source.kind == "f" and dtype.kind == "f":
            _check_float(array, result, rounding or (source.itemsize, dtype.itemsize) == (8, 4))
        elif source.kind == "f":
            _check_float_to_integer(array, dtype)
        elif dtype.kind == "f":
            _check_integer_to_float(array, result)
        else:
            _check_integer(array, dtype)
    return result


def _check_float(array: NDArray[Any], result: NDArray[Any], rounding: bool) -> None:
    overflow = np.isfinite(array) & ~np.isfinite(result)
    if overflow.any():
        raise ValueRefusedError(f"{array[overflow].flat[0].item()!r} overflows {result.dtype}")
    if not rounding:
        changed = (result.astype(array.dtype) != array) & ~np.isnan(array)
        if changed.any():
            raise ValueRefusedError(
                f"{array[changed].flat[0].item()!r} is not exact in {result.dtype}"
            )


def _check_float_to_integer(array: NDArray[Any], dtype: np.dtype[Any]) -> None:
    limits = np.iinfo(dtype)
    # `max + 1` is a power of two, hence exact as a float; NaN fails every comparison.
    fits = (array >= float(limits.min)) & (array < float(int(limits.max) + 1))
    fits &= np.trunc(array) == array
    if not fits.all():
        raise ValueRefusedError(f"{array[~fits].flat[0].item()!r} is no {dtype}")


def _check_integer_to_float(array: NDArray[Any], result: NDArray[Any]) -> None:
    if array.size == 0:
        return
    exact_up_to = 2 ** (np.finfo(result.dtype).nmant + 1)
    if -exact_up_to <= int(array.min()) and int(array.max()) <= exact_up_to:
        return
    for before, after in zip(array.ravel().tolist(), result.ravel().tolist(), strict=True):
        if not np.isfinite(after) or int(after) != before:
            raise ValueRefusedError(f"{before!r} is not exact in {result.dtype}")


def _check_integer(array: NDArray[Any], dtype: np.dtype[Any]) -> None:
    if array.size == 0:
        return
    limits = np.iinfo(dtype)
    low, high = int(array.min()), int(array.max())
    if low < limits.min or high > limits.max:
        wrong = low if low < limits.min else high
        raise ValueRefusedError(f"{wrong} is outside {dtype} [{limits.min}, {limits.max}]")
