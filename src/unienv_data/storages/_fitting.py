"""Values brought into the exact form of a space, or refused before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unienv_data.errors import MissingColumnError, SampleError
from unienv_data.format.values import ValueRefusedError, cast_exactly
from unienv_interface.backends.serialization import serialize_dtype
from unienv_interface.errors import UniEnvError
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, TextSpace, TupleSpace
from unienv_interface.space.space_utils import batch_utils as sbu

__all__ = ["fit_batch", "fit_sample"]


def fit_sample(space: Any, value: Any, place: str) -> Any:
    """One sample with exactly the keys, shapes and dtypes of a space; surplus keys are left out.

    Args:
        space: Its space.
        value: Arrays, or numbers for shape ``()``; dtypes change where no value does.
        place: Operation and storage, for the message.

    Raises:
        SampleError: It does not fit.
        MissingColumnError: A key is missing.
    """
    return _fit(space, value, None, place)


def fit_batch(space: Any, value: Any, count: int, place: str) -> Any:
    """A batch of `count` samples, likewise; `space` is that of one sample."""
    return _fit(space, value, count, place)


def _fit(space: Any, value: Any, count: int | None, place: str) -> Any:
    if isinstance(space, DictSpace):
        _check_keys(space, value, place)
        return {
            key: _fit(child, value[key], count, f"{place}: {key!r}")
            for key, child in space.spaces.items()
        }
    if isinstance(space, TupleSpace):
        if not isinstance(value, (tuple, list)) or len(value) != len(space.spaces):
            raise _refused(place, f"a tuple of {len(space.spaces)}", _kind(value))
        return tuple(
            _fit(child, part, count, f"{place}: {position}")
            for position, (child, part) in enumerate(zip(space.spaces, value, strict=True))
        )
    if isinstance(space, (BoxSpace, BinarySpace)):
        shape = tuple(space.shape) if count is None else (count, *space.shape)
        return _fit_array(space, value, shape, place)
    if isinstance(space, TextSpace) and count is not None:
        return _fit_texts(space, value, count, place)
    whole = space if count is None else sbu.batch_space(space, count)
    try:
        fits = whole.contains(value)
    except (UniEnvError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise _refused(place, str(whole), f"{_kind(value)} ({error})") from error
    if not fits:
        raise _refused(place, str(whole), repr(value) if count is None else _kind(value))
    return str(value) if isinstance(value, str) else value


def _check_keys(space: DictSpace, value: Any, place: str) -> None:
    if not isinstance(value, Mapping):
        raise _refused(place, f"a mapping with the keys {list(space.spaces)}", _kind(value))
    missing = [key for key in space.spaces if key not in value]
    if missing:
        raise MissingColumnError(
            f"{place}: the keys {missing} are missing; there are {list(value)}",
            column=missing[0],
            expected=list(space.spaces),
            found=list(value),
        )


def _fit_array(space: Any, value: Any, shape: tuple[int, ...], place: str) -> Any:
    backend = space.backend
    dtype = backend.concrete_dtype(space.dtype)
    array = value
    if not backend.is_backendarray(array):
        if value is None or isinstance(value, (str, bytes, Mapping)):
            raise _refused(place, f"{dtype} {shape}", _kind(value))
        try:
            array = backend.asarray(value, device=space.device)
        except (ValueError, TypeError, OverflowError, RuntimeError) as error:
            raise _refused(place, f"{dtype} {shape}", f"{_kind(value)} ({error})") from error
    found = f"{array.dtype} {tuple(array.shape)}"
    if tuple(array.shape) != shape:
        raise _refused(place, f"{dtype} {shape}", found)
    if array.dtype == dtype:
        return array
    try:
        # Python numbers carry no dtype of their own; floats are taken at this column's.
        cast = cast_exactly(
            np.asarray(backend.to_numpy(array)),
            np.dtype(str(serialize_dtype(backend, dtype))),
            rounding=not hasattr(value, "dtype"),
        )
    except (ValueRefusedError, ValueError, TypeError) as refusal:
        raise _refused(place, f"{dtype} {shape}", f"{found}: {refusal}") from None
    return backend.from_numpy(cast, device=space.device)


def _fit_texts(space: TextSpace, value: Any, count: int, place: str) -> Any:
    is_array = isinstance(value, np.ndarray) and value.dtype.kind in "OU"
    if not (is_array or isinstance(value, (list, tuple))):
        raise _refused(place, f"{count} texts", _kind(value))
    if np.shape(value) != (count,) if is_array else len(value) != count:
        raise _refused(place, f"{count} texts", f"{len(value)} of shape {np.shape(value)}")
    result = np.empty(count, dtype=object)
    for row, text in enumerate(value):
        result[row] = _fit(space, text, None, f"{place}: row {row}")
    return result


def _kind(value: Any) -> str:
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    return f"{dtype} {shape}" if dtype is not None else f"a {type(value).__name__}"


def _refused(place: str, expected: str, found: str) -> SampleError:
    return SampleError(
        f"{place}: expected {expected}, got {found}; cast or reshape",
        expected=expected,
        found=found,
    )
