"""Batches: spaces with a leading axis, and their samples row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from unienv_interface.errors import SpaceMismatchError
from unienv_interface.space.space import Space
from unienv_interface.space.space_utils._dispatch import unsupported
from unienv_interface.space.spaces import (
    BatchedSpace,
    BinarySpace,
    BoxSpace,
    DictSpace,
    TextSpace,
    TupleSpace,
    UnionSpace,
)

__all__ = [
    "batch_differing_spaces",
    "batch_size",
    "batch_size_data",
    "batch_space",
    "concatenate",
    "get_at",
    "iterate",
    "reshape_batch_size",
    "reshape_batch_size_in_data",
    "set_at",
    "swap_batch_dims",
    "swap_batch_dims_in_data",
    "unbatch_spaces",
]


# -- spaces ----------------------------------------------------------------------------------


@singledispatch
def batch_space(space: Any, n: int = 1) -> Any:
    """The space of batches of `n` samples: one more leading axis."""
    unsupported("batch_space", space)


@batch_space.register
def _(space: BoxSpace, n: int = 1) -> Any:
    low, high = space._low[None], space._high[None]
    return BoxSpace(
        space.backend, low, high, space.dtype, space.device, (n, *space.shape), space.metadata
    )


@batch_space.register
def _(space: BinarySpace, n: int = 1) -> Any:
    shape = (n, *space.shape)
    return BinarySpace(space.backend, shape, space.dtype, space.device, space.metadata)


@batch_space.register
def _(space: DictSpace, n: int = 1) -> Any:
    pairs = [(key, batch_space(child, n)) for key, child in space.spaces.items()]
    return DictSpace(space.backend, pairs, space.device, space.metadata)


@batch_space.register
def _(space: TupleSpace, n: int = 1) -> Any:
    children = [batch_space(child, n) for child in space.spaces]
    return TupleSpace(space.backend, children, space.device, space.metadata)


@batch_space.register(TextSpace)
@batch_space.register(UnionSpace)
def _(space: Any, n: int = 1) -> Any:
    return BatchedSpace(space, (n,), space.metadata)


@batch_space.register
def _(space: BatchedSpace, n: int = 1) -> Any:
    return BatchedSpace(space.single_space, (n, *space.batch_shape), space.metadata)


@singledispatch
def batch_size(space: Any) -> int | None:
    """Length of the leading axis, None when there is none."""
    return None


@batch_size.register(BoxSpace)
@batch_size.register(BinarySpace)
def _(space: Any) -> int | None:
    return space.shape[0] if space.shape else None


@batch_size.register
def _(space: BatchedSpace) -> int | None:
    return space.batch_shape[0] if space.batch_shape else None


@batch_size.register
def _(space: DictSpace) -> int | None:
    return _first_size(space.spaces.values())


@batch_size.register
def _(space: TupleSpace) -> int | None:
    return None if isinstance(space, UnionSpace) else _first_size(space.spaces)


def _first_size(spaces: Iterable[Any]) -> int | None:
    for child in spaces:
        size = batch_size(child)
        if size is not None:
            return size
    return None


def batch_size_data(data: Any) -> int | None:
    """Length of the leading axis of the first array in nested data.

    Raises:
        TypeError: It is a scalar.
    """
    if isinstance(data, Mapping):
        return _first_data_size(data.values())
    if isinstance(data, (list, tuple)):
        return _first_data_size(data)
    shape = getattr(data, "shape", None)
    if not shape:
        raise TypeError(f"batch_size_data: {type(data).__name__} without an axis is no batch")
    return int(shape[0])


def _first_data_size(values: Iterable[Any]) -> int | None:
    for value in values:
        size = batch_size_data(value)
        if size is not None:
            return size
    return None


def batch_differing_spaces(spaces: Sequence[Any], device: Any = None) -> Any:
    """One space of batches whose rows are members of different spaces of one kind."""
    first = spaces[0]
    if any(type(space) is not type(first) for space in spaces):
        raise SpaceMismatchError("batch_differing_spaces: the spaces are of different kinds")
    if isinstance(first, BoxSpace):
        if any(s.shape != first.shape or s.dtype != first.dtype for s in spaces):
            raise SpaceMismatchError("batch_differing_spaces: shapes or dtypes differ")
        stack = first.backend.stack
        low, high = stack([s.low for s in spaces]), stack([s.high for s in spaces])
        return BoxSpace(first.backend, low, high, first.dtype, device or first.device)
    if isinstance(first, DictSpace):
        if any(s.keys() != first.keys() for s in spaces):
            raise SpaceMismatchError("batch_differing_spaces: the keys differ")
        pairs = [
            (key, batch_differing_spaces([s[key] for s in spaces], device)) for key in first.spaces
        ]
        return DictSpace(first.backend, pairs, device)
    if isinstance(first, TupleSpace) and not isinstance(first, UnionSpace):
        if any(len(s) != len(first) for s in spaces):
            raise SpaceMismatchError("batch_differing_spaces: the lengths differ")
        children = [
            batch_differing_spaces([s[n] for s in spaces], device) for n in range(len(first))
        ]
        return TupleSpace(first.backend, children, device)
    if any(space != first for space in spaces):
        raise SpaceMismatchError("batch_differing_spaces: these spaces cannot differ in a batch")
    return batch_space(first, len(spaces))


def unbatch_spaces(space: Any) -> Iterator[Any]:
    """The space of each row of a batch."""
    count = batch_size(space)
    if count is None:
        unsupported("unbatch_spaces", space)
    for row in range(count):
        yield _row_space(space, row)


def _row_space(space: Any, row: int) -> Any:
    if isinstance(space, BoxSpace):
        return BoxSpace(
            space.backend,
            space.low[row],
            space.high[row],
            space.dtype,
            space.device,
            space.shape[1:],
            space.metadata,
        )
    if isinstance(space, BinarySpace):
        shape = space.shape[1:]
        return BinarySpace(space.backend, shape, space.dtype, space.device, space.metadata)
    if isinstance(space, BatchedSpace):
        rest = space.batch_shape[1:]
        return BatchedSpace(space.single_space, rest) if rest else space.single_space
    if isinstance(space, DictSpace):
        pairs = [(key, _row_space(child, row)) for key, child in space.spaces.items()]
        return DictSpace(space.backend, pairs, space.device, space.metadata)
    if isinstance(space, TupleSpace) and not isinstance(space, UnionSpace):
        children = [_row_space(child, row) for child in space.spaces]
        return TupleSpace(space.backend, children, space.device, space.metadata)
    return unsupported("unbatch_spaces", space)


# -- data ------------------------------------------------------------------------------------


@singledispatch
def get_at(space: Any, items: Any, index: Any) -> Any:
    """Rows of a batch.

    Args:
        space: The batch's space.
        items: The batch.
        index: Whatever an array of the backend accepts. An int gives one sample, whose values of
            shape () stay arrays; elements of object arrays come as they are.
    """
    unsupported("get_at", space)


@get_at.register(BoxSpace)
@get_at.register(BinarySpace)
def _(space: Any, items: Any, index: Any) -> Any:
    value = items[index]
    return value if space.backend.is_backendarray(value) else space.backend.asarray(value)


@get_at.register
def _(space: DictSpace, items: Any, index: Any) -> Any:
    return {key: get_at(child, items[key], index) for key, child in space.spaces.items()}


@get_at.register
def _(space: TupleSpace, items: Any, index: Any) -> Any:
    return tuple(
        get_at(child, value, index) for child, value in zip(space.spaces, items, strict=True)
    )


@get_at.register
def _(space: BatchedSpace, items: Any, index: Any) -> Any:
    return items[_for_numpy(space, index)]


@get_at.register
def _(space: TextSpace, items: Any, index: Any) -> Any:
    return items[_for_numpy(space, index)]


def _for_numpy(space: Any, index: Any) -> Any:
    return space.backend.to_numpy(index) if space.backend.is_backendarray(index) else index


@singledispatch
def set_at(space: Any, items: Any, index: Any, value: Any) -> Any:
    """The batch with rows replaced; in place where its arrays can be written to.

    A scalar `value` is spread over the children of Dict and Tuple spaces.
    """
    unsupported("set_at", space)


@set_at.register(BoxSpace)
@set_at.register(BinarySpace)
def _(space: Any, items: Any, index: Any, value: Any) -> Any:
    return space.backend.at(items)[index].set(value)


@set_at.register
def _(space: DictSpace, items: Any, index: Any, value: Any) -> Any:
    return {
        key: set_at(child, items[key], index, value[key] if isinstance(value, Mapping) else value)
        for key, child in space.spaces.items()
    }


@set_at.register
def _(space: TupleSpace, items: Any, index: Any, value: Any) -> Any:
    values = value if isinstance(value, (tuple, list)) else [value] * len(space.spaces)
    return tuple(
        set_at(child, item, index, part)
        for child, item, part in zip(space.spaces, items, values, strict=True)
    )


@set_at.register
def _(space: BatchedSpace, items: Any, index: Any, value: Any) -> Any:
    result = items.copy()
    result[_for_numpy(space, index)] = value
    return result


@singledispatch
def concatenate(space: Any, items: Iterable[Any], axis: int = 0) -> Any:
    """Stacks single samples into a batch; the name is historical.

    Args:
        space: Space of one sample.
        items: The samples.
        axis: Where the new axis goes.
    """
    unsupported("concatenate", space)


@concatenate.register(BoxSpace)
@concatenate.register(BinarySpace)
def _(space: Any, items: Iterable[Any], axis: int = 0) -> Any:
    backend = space.backend
    arrays = [x if backend.is_backendarray(x) else backend.asarray(x) for x in items]
    return backend.stack(arrays, axis=axis)


@concatenate.register
def _(space: DictSpace, items: Iterable[Any], axis: int = 0) -> Any:
    samples = list(items)
    return {
        key: concatenate(child, [sample[key] for sample in samples], axis)
        for key, child in space.spaces.items()
    }


@concatenate.register
def _(space: TupleSpace, items: Iterable[Any], axis: int = 0) -> Any:
    samples = list(items)
    return tuple(
        concatenate(child, [sample[n] for sample in samples], axis)
        for n, child in enumerate(space.spaces)
    )


@concatenate.register(TextSpace)
@concatenate.register(UnionSpace)
def _(space: Any, items: Iterable[Any], axis: int = 0) -> Any:
    samples = list(items)
    result = np.empty(len(samples), dtype=object)
    for position, sample in enumerate(samples):
        result[position] = sample
    return result


@concatenate.register
def _(space: BatchedSpace, items: Iterable[Any], axis: int = 0) -> Any:
    return np.stack(list(items), axis=axis)


def iterate(space: Any, items: Any) -> Iterator[Any]:
    """The rows of a batch, one after the other."""
    count = batch_size(space)
    if count is None:
        unsupported("iterate", space)
    for row in range(count):
        yield get_at(space, items, row)


# -- shapes ----------------------------------------------------------------------------------


def reshape_batch_size(space: Any, old_batch_shape: Any, new_batch_shape: Any) -> Any:
    """The space with its leading axes `old_batch_shape` replaced by `new_batch_shape`."""
    if space is None:
        return None
    old, new = tuple(old_batch_shape), tuple(new_batch_shape)

    def check(shape: Any) -> None:
        if tuple(shape[: len(old)]) != old:
            raise SpaceMismatchError(
                f"reshape_batch_size: the space begins with axes {shape}, expected {old}"
            )

    if isinstance(space, BoxSpace):
        check(space.shape)
        shape = (*new, *space.shape[len(old) :])
        reshape = space.backend.reshape
        return BoxSpace(
            space.backend,
            reshape(space.low, shape),
            reshape(space.high, shape),
            space.dtype,
            space.device,
            shape,
            space.metadata,
        )
    if isinstance(space, BinarySpace):
        check(space.shape)
        shape = (*new, *space.shape[len(old) :])
        return BinarySpace(space.backend, shape, space.dtype, space.device, space.metadata)
    if isinstance(space, BatchedSpace):
        check(space.batch_shape)
        return BatchedSpace(space.single_space, (*new, *space.batch_shape[len(old) :]))
    return _over_children(space, lambda child: reshape_batch_size(child, old, new))


def reshape_batch_size_in_data(
    backend: Any, data: Any, old_batch_shape: Any, new_batch_shape: Any
) -> Any:
    """Nested data with its leading axes replaced."""
    old, new = tuple(old_batch_shape), tuple(new_batch_shape)

    def change(array: Any) -> Any:
        shape = (*new, *tuple(array.shape)[len(old) :])
        return (
            array.reshape(shape) if isinstance(array, np.ndarray) else backend.reshape(array, shape)
        )

    return _over_data(data, change)


def swap_batch_dims(space: Any, dim1: int, dim2: int) -> Any:
    """The space with two leading axes swapped."""
    if space is None:
        return None
    if isinstance(space, BoxSpace):
        order = _swapped(len(space.shape), dim1, dim2)
        permute = space.backend.permute_dims
        return BoxSpace(
            space.backend,
            permute(space._low, order),
            permute(space._high, order),
            space.dtype,
            space.device,
            tuple(space.shape[axis] for axis in order),
            space.metadata,
        )
    if isinstance(space, BinarySpace):
        order = _swapped(len(space.shape), dim1, dim2)
        shape = tuple(space.shape[axis] for axis in order)
        return BinarySpace(space.backend, shape, space.dtype, space.device, space.metadata)
    if isinstance(space, BatchedSpace):
        order = _swapped(len(space.batch_shape), dim1, dim2)
        return BatchedSpace(space.single_space, tuple(space.batch_shape[a] for a in order))
    return _over_children(space, lambda child: swap_batch_dims(child, dim1, dim2))


def swap_batch_dims_in_data(backend: Any, data: Any, dim1: int, dim2: int) -> Any:
    """Nested data with two leading axes swapped."""

    def change(array: Any) -> Any:
        order = _swapped(len(array.shape), dim1, dim2)
        if isinstance(array, np.ndarray):
            return array.transpose(order)
        return backend.permute_dims(array, order)

    return _over_data(data, change)


def _swapped(axes: int, dim1: int, dim2: int) -> tuple[int, ...]:
    order = list(range(axes))
    order[dim1], order[dim2] = order[dim2], order[dim1]
    return tuple(order)


def _over_children(space: Any, change: Any) -> Space[Any, Any, Any, Any]:
    if isinstance(space, DictSpace):
        pairs = [(key, change(child)) for key, child in space.spaces.items()]
        return DictSpace(space.backend, pairs, space.device, space.metadata)
    if isinstance(space, TupleSpace) and not isinstance(space, UnionSpace):
        children = [change(child) for child in space.spaces]
        return TupleSpace(space.backend, children, space.device, space.metadata)
    return unsupported("reshaping a batch", space)


def _over_data(data: Any, change: Any) -> Any:
    if data is None:
        return None
    if isinstance(data, Mapping):
        return {key: _over_data(value, change) for key, value in data.items()}
    if isinstance(data, tuple):
        return tuple(_over_data(value, change) for value in data)
    return change(data)
