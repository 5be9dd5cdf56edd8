"""The space of given data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import singledispatch
from typing import Any

import numpy as np

from unienv_interface.errors import SpaceMismatchError, UnsupportedSpaceError
from unienv_interface.space.spaces import (
    BinarySpace,
    BoxSpace,
    DictSpace,
    DynamicBoxSpace,
    TextSpace,
    TupleSpace,
)
from unienv_interface.space.spaces._dtypes import host_dtype

__all__ = [
    "UnsupportedDataError",
    "construct_space_from_data",
    "construct_space_from_data_stream",
]


class UnsupportedDataError(UnsupportedSpaceError, ValueError):
    """No space holds such data."""


def construct_space_from_data(
    data: Any, backend: Any, candidate_space: Any = None, add_bounds: bool = False
) -> Any:
    """A space that contains the data.

    Arrays give a Binary for bools and a Box for numbers, texts a Text, mappings a Dict, tuples and
    lists a Tuple.

    Args:
        data: One sample.
        backend: Array backend.
        candidate_space: A space of earlier samples, widened where the data needs it. Arrays that
            differ in shape alone give a DynamicBox.
        add_bounds: Bound numbers by those seen; otherwise Boxes are unbounded.

    Raises:
        UnsupportedDataError: No space holds such data. Python's numbers are not arrays.
        SpaceMismatchError: The data cannot be in one space with the earlier samples.
    """
    space = _construct(data, backend, add_bounds)
    return space if candidate_space is None else _widened(candidate_space, space)


def construct_space_from_data_stream(
    data: Iterable[Any], backend: Any, add_bounds: bool = True
) -> Any:
    """A space that contains every sample of a stream; None when there is no sample.

    Args:
        data: The samples.
        backend: Array backend.
        add_bounds: Bound numbers by those seen; otherwise Boxes are unbounded.

    Raises:
        UnsupportedDataError: No space holds such data.
        SpaceMismatchError: No space holds all samples.
    """
    space = None
    for sample in data:
        space = construct_space_from_data(sample, backend, space, add_bounds)
    return space


def _construct(data: Any, backend: Any, add_bounds: bool) -> Any:
    if isinstance(data, Mapping):
        pairs = {key: _construct(value, backend, add_bounds) for key, value in data.items()}
        return DictSpace(backend, pairs)
    if isinstance(data, (tuple, list)):
        return TupleSpace(backend, [_construct(value, backend, add_bounds) for value in data])
    if isinstance(data, str):
        return TextSpace(backend, len(data))
    if not backend.is_backendarray(data):
        raise UnsupportedDataError(
            f"no space holds a {type(data).__name__}; numbers are arrays of {backend!r}, those of "
            "shape () included",
            found=type(data).__name__,
        )
    device = backend.device(data)
    shape = tuple(data.shape)
    if backend.dtype_is_boolean(data.dtype):
        return BinarySpace(backend, shape, data.dtype, device)
    if not (
        backend.dtype_is_real_integer(data.dtype) or backend.dtype_is_real_floating(data.dtype)
    ):
        raise UnsupportedDataError(f"no space holds values of dtype {data.dtype}")
    low, high = (data, data) if add_bounds else (-math.inf, math.inf)
    return BoxSpace(backend, low, high, data.dtype, device, shape)


@singledispatch
def _widened(before: Any, space: Any) -> Any:
    """The smallest space that holds the members of both."""
    if type(before) is type(space) and before == space:
        return before
    return _mismatch(before, space)


def _mismatch(before: Any, space: Any) -> Any:
    raise SpaceMismatchError(
        f"the samples are in no common space: {before} and {space}",
        expected=str(before),
        found=str(space),
    )


@_widened.register
def _(before: DictSpace, space: Any) -> Any:
    if not isinstance(space, DictSpace) or before.spaces.keys() != space.spaces.keys():
        return _mismatch(before, space)
    pairs = [(key, _widened(child, space[key])) for key, child in before.spaces.items()]
    return DictSpace(before.backend, pairs)


@_widened.register
def _(before: TupleSpace, space: Any) -> Any:
    if not isinstance(space, TupleSpace) or len(before) != len(space):
        return _mismatch(before, space)
    children = [_widened(a, b) for a, b in zip(before.spaces, space.spaces, strict=True)]
    return TupleSpace(before.backend, children)


@_widened.register
def _(before: TextSpace, space: Any) -> Any:
    if not isinstance(space, TextSpace):
        return _mismatch(before, space)
    return TextSpace(
        before.backend,
        max(before.max_length, space.max_length),
        min_length=min(before.min_length, space.min_length),
        charset=before.charset if before.charset == space.charset else None,
    )


@_widened.register
def _(before: BinarySpace, space: Any) -> Any:
    same = isinstance(space, BinarySpace) and before.shape == space.shape
    return before if same else _mismatch(before, space)


@_widened.register(BoxSpace)
@_widened.register(DynamicBoxSpace)
def _(before: Any, space: Any) -> Any:
    if not isinstance(space, (BoxSpace, DynamicBoxSpace)):
        return _mismatch(before, space)
    backend = before.backend
    dtypes = [backend.concrete_dtype(each.dtype) for each in (before, space)]
    dtype = dtypes[0] if dtypes[0] == dtypes[1] else backend.result_type(*dtypes)
    host = host_dtype(backend, dtype)
    shapes = [_shapes(each) for each in (before, space)]
    if len(shapes[0][0]) != len(shapes[1][0]):
        return _mismatch(before, space)
    least = tuple(map(min, shapes[0][0], shapes[1][0]))
    most = tuple(map(max, shapes[0][1], shapes[1][1]))
    varying = tuple(
        axis for axis, pair in enumerate(zip(least, most, strict=True)) if len({*pair}) > 1
    )
    lows = [_reduced(np.min, each._host_low, varying).astype(host) for each in (before, space)]
    highs = [_reduced(np.max, each._host_high, varying).astype(host) for each in (before, space)]
    low, high = np.minimum(*lows), np.maximum(*highs)
    nothing = low > high  # where only empty arrays were seen
    low, high = (np.where(nothing, host.type(0), bound) for bound in (low, high))
    if least == most:
        return BoxSpace(backend, low, high, dtype, before.device, least)
    return DynamicBoxSpace(backend, low, high, least, most, dtype, before.device)


def _shapes(space: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Least and greatest shape."""
    if isinstance(space, BoxSpace):
        return space.shape, space.shape
    return space.shape_low, space.shape_high


def _reduced(function: Any, bound: Any, axes: tuple[int, ...]) -> Any:
    """A compact bound with these axes reduced to length 1; an empty one bounds nothing."""
    if not axes:
        return bound
    if bound.size == 0:
        extreme = function is np.min
        filler = _extreme(bound.dtype, highest=extreme)
        shape = [1 if axis in axes else length for axis, length in enumerate(bound.shape)]
        return np.full(shape, filler, bound.dtype)
    return function(bound, axis=axes, keepdims=True)


def _extreme(dtype: np.dtype[Any], *, highest: bool) -> Any:
    if dtype.kind == "f":
        return math.inf if highest else -math.inf
    limits = np.iinfo(dtype)
    return limits.max if highest else limits.min
