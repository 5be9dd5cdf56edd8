"""The leading axes of batches reshaped and swapped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import singledispatch
from typing import Any

import numpy as np

from unienv_interface.errors import SpaceMismatchError
from unienv_interface.space.space_utils._batch_data import graph_arrays
from unienv_interface.space.space_utils._dispatch import unsupported
from unienv_interface.space.spaces import (
    BatchedSpace,
    BinarySpace,
    BoxSpace,
    DictSpace,
    DynamicBoxSpace,
    GraphInstance,
    GraphSpace,
    TupleSpace,
)

__all__ = [
    "reshape_batch_size",
    "reshape_batch_size_in_data",
    "swap_batch_dims",
    "swap_batch_dims_in_data",
]


def reshape_batch_size(space: Any, old_batch_shape: Any, new_batch_shape: Any) -> Any:
    """The space with its leading axes `old_batch_shape` replaced by `new_batch_shape`.

    Raises:
        SpaceMismatchError: The space begins with other axes, or the new ones hold another number
            of rows.
    """
    if space is None:
        return None
    old, new = _batch_shapes(old_batch_shape, new_batch_shape)
    return _with_axes(space, _Reshape(old, new))


def reshape_batch_size_in_data(
    backend: Any, data: Any, old_batch_shape: Any, new_batch_shape: Any
) -> Any:
    """Nested data with its leading axes replaced; None stays None."""
    change = _Reshape(*_batch_shapes(old_batch_shape, new_batch_shape))

    def reshaped(array: Any) -> Any:
        shape = change.shape(tuple(array.shape))
        # Batches of texts are numpy's whatever the backend.
        return (np if isinstance(array, np.ndarray) else backend).reshape(array, shape)

    return _over_data(data, reshaped)


def swap_batch_dims(space: Any, dim1: int, dim2: int) -> Any:
    """The space with two leading axes swapped; None stays None."""
    return None if space is None else _with_axes(space, _Swap(dim1, dim2))


def swap_batch_dims_in_data(backend: Any, data: Any, dim1: int, dim2: int) -> Any:
    """Nested data with two leading axes swapped; None stays None."""

    def swapped(array: Any) -> Any:
        order = _swapped(len(array.shape), dim1, dim2)
        if isinstance(array, np.ndarray):
            return array.transpose(order)
        return backend.permute_dims(array, order)

    return _over_data(data, swapped)


def _batch_shapes(old: Any, new: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    before, after = tuple(old), tuple(new)
    if math.prod(before) != math.prod(after):
        raise SpaceMismatchError(f"batch axes {before} and {after} hold different numbers of rows")
    return before, after


class _Reshape:
    """Replaces leading axes."""

    def __init__(self, old: tuple[int, ...], new: tuple[int, ...]) -> None:
        self._old, self._new = old, new

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The axes after it."""
        if shape[: len(self._old)] != self._old:
            raise SpaceMismatchError(f"expected axes {self._old} to begin with, got {shape}")
        return (*self._new, *shape[len(self._old) :])

    def bound(self, bound: Any, axes: tuple[int, ...]) -> Any:
        """A compact bound after it, where `axes` are those it stands for."""
        count = len(self._old)
        rest = bound.shape[count:]
        if all(length == 1 for length in bound.shape[:count]):
            return bound.reshape((1,) * len(self._new) + rest)
        return np.broadcast_to(bound, axes[:count] + rest).reshape(self._new + rest)


class _Swap:
    """Swaps two axes."""

    def __init__(self, dim1: int, dim2: int) -> None:
        self._dims = dim1, dim2

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The axes after it."""
        return tuple(shape[axis] for axis in _swapped(len(shape), *self._dims))

    def bound(self, bound: Any, axes: tuple[int, ...]) -> Any:
        """A compact bound after it."""
        return bound.transpose(_swapped(bound.ndim, *self._dims))


@singledispatch
def _with_axes(space: Any, change: Any) -> Any:
    """The space with its axes changed by a `_Reshape` or `_Swap`."""
    unsupported("changing the axes of a batch", space)


@_with_axes.register
def _(space: BoxSpace, change: Any) -> Any:
    low, high = (change.bound(b, space.shape) for b in (space._host_low, space._host_high))
    shape = change.shape(space.shape)
    return BoxSpace(space.backend, low, high, space.dtype, space.device, shape, space.metadata)


@_with_axes.register
def _(space: DynamicBoxSpace, change: Any) -> Any:
    axes = space._common_axes
    return DynamicBoxSpace(
        space.backend,
        change.bound(space._host_low, axes),
        change.bound(space._host_high, axes),
        change.shape(space.shape_low),
        change.shape(space.shape_high),
        space.dtype,
        space.device,
        space.fill_value,
        space.metadata,
    )


@_with_axes.register
def _(space: BinarySpace, change: Any) -> Any:
    shape = change.shape(space.shape)
    return BinarySpace(space.backend, shape, space.dtype, space.device, space.metadata)


@_with_axes.register
def _(space: BatchedSpace, change: Any) -> Any:
    return BatchedSpace(space.single_space, change.shape(space.batch_shape), space.metadata)


@_with_axes.register
def _(space: GraphSpace, change: Any) -> Any:
    return space.replace(batch_shape=change.shape(space.batch_shape))


@_with_axes.register
def _(space: DictSpace, change: Any) -> Any:
    pairs = [(key, _with_axes(child, change)) for key, child in space.spaces.items()]
    return DictSpace(space.backend, pairs, space.device, space.metadata)


@_with_axes.register
def _(space: TupleSpace, change: Any) -> Any:
    children = [_with_axes(child, change) for child in space.spaces]
    return TupleSpace(space.backend, children, space.device, space.metadata)


def _swapped(axes: int, dim1: int, dim2: int) -> tuple[int, ...]:
    order = list(range(axes))
    try:
        order[dim1], order[dim2] = order[dim2], order[dim1]
    except IndexError as error:
        raise SpaceMismatchError(f"no axes {dim1} and {dim2} among {axes}") from error
    return tuple(order)


def _over_data(data: Any, change: Any) -> Any:
    if data is None:
        return None
    if isinstance(data, Mapping):
        return {key: _over_data(value, change) for key, value in data.items()}
    if isinstance(data, (tuple, list)):
        return type(data)(_over_data(value, change) for value in data)
    if isinstance(data, GraphInstance):
        return GraphInstance(*(_over_data(array, change) for array in graph_arrays(data)))
    return change(data)
