"""Spaces of batches, and of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from unienv_interface.errors import SpaceMismatchError
from unienv_interface.space.space_utils._dispatch import unsupported
from unienv_interface.space.space_utils.metadata_utils import common_metadata
from unienv_interface.space.spaces import (
    BatchedSpace,
    BinarySpace,
    BoxSpace,
    DictSpace,
    DynamicBoxSpace,
    GraphSpace,
    TextSpace,
    TupleSpace,
    UnionSpace,
)

__all__ = ["batch_differing_spaces", "batch_size", "batch_space", "row_space", "unbatch_spaces"]


@singledispatch
def batch_space(space: Any, n: int = 1) -> Any:
    """The space of batches of `n` samples: one more leading axis."""
    unsupported("batch_space", space)


@batch_space.register
def _(space: BoxSpace, n: int = 1) -> Any:
    low, high = space._host_low[None], space._host_high[None]
    return BoxSpace(
        space.backend, low, high, space.dtype, space.device, (n, *space.shape), space.metadata
    )


@batch_space.register
def _(space: DynamicBoxSpace, n: int = 1) -> Any:
    return DynamicBoxSpace(
        space.backend,
        space._host_low[None],
        space._host_high[None],
        (n, *space.shape_low),
        (n, *space.shape_high),
        space.dtype,
        space.device,
        space.fill_value,
        space.metadata,
    )


@batch_space.register
def _(space: GraphSpace, n: int = 1) -> Any:
    return space.replace(batch_shape=(n, *space.batch_shape))


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
def _(space: DynamicBoxSpace) -> int | None:
    fixed = space.shape_low and space.shape_low[0] == space.shape_high[0]
    return space.shape_low[0] if fixed else None


@batch_size.register(BatchedSpace)
@batch_size.register(GraphSpace)
def _(space: Any) -> int | None:
    return space.batch_shape[0] if space.batch_shape else None


@batch_size.register
def _(space: DictSpace) -> int | None:
    return _first_size(space.spaces.values())


@batch_size.register
def _(space: TupleSpace) -> int | None:
    return _first_size(space.spaces)


def _first_size(spaces: Iterable[Any]) -> int | None:
    for child in spaces:
        size = batch_size(child)
        if size is not None:
            return size
    return None


def batch_differing_spaces(spaces: Sequence[Any], device: Any = None) -> Any:
    """One space of batches whose rows are members of different spaces of one kind.

    Raises:
        SpaceMismatchError: They are of different kinds, shapes or dtypes, or there are none.
    """
    if not spaces or any(type(space) is not type(spaces[0]) for space in spaces):
        raise SpaceMismatchError("batch_differing_spaces: one or more spaces of one kind")
    return _batch_differing(spaces[0], spaces, device)


@singledispatch
def _batch_differing(first: Any, spaces: Sequence[Any], device: Any) -> Any:
    if any(space != first for space in spaces):
        raise SpaceMismatchError(
            f"batch_differing_spaces: {type(first).__name__}s cannot differ in a batch"
        )
    common = first.with_metadata(common_metadata(spaces), replace=True)
    return batch_space(common.to(device=device), len(spaces))


@_batch_differing.register
def _(first: BoxSpace, spaces: Sequence[Any], device: Any) -> Any:
    _require_common(spaces, "shape", "dtype")
    low = np.stack([np.broadcast_to(s._host_low, s.shape) for s in spaces])
    high = np.stack([np.broadcast_to(s._host_high, s.shape) for s in spaces])
    place = first.device if device is None else device
    metadata = common_metadata(spaces)
    return BoxSpace(first.backend, low, high, first.dtype, place, metadata=metadata)


@_batch_differing.register
def _(first: DynamicBoxSpace, spaces: Sequence[Any], device: Any) -> Any:
    _require_common(spaces, "shape_low", "shape_high", "dtype", "fill_value")
    low = np.stack([np.broadcast_to(s._host_low, s._common_axes) for s in spaces])
    high = np.stack([np.broadcast_to(s._host_high, s._common_axes) for s in spaces])
    return DynamicBoxSpace(
        first.backend,
        low,
        high,
        (len(spaces), *first.shape_low),
        (len(spaces), *first.shape_high),
        first.dtype,
        first.device if device is None else device,
        first.fill_value,
        common_metadata(spaces),
    )


@_batch_differing.register
def _(first: DictSpace, spaces: Sequence[Any], device: Any) -> Any:
    if any(s.spaces.keys() != first.spaces.keys() for s in spaces):
        raise SpaceMismatchError("batch_differing_spaces: the keys differ")
    pairs = [(key, batch_differing_spaces([s[key] for s in spaces], device)) for key in first]
    return DictSpace(first.backend, pairs, device, common_metadata(spaces))


@_batch_differing.register
def _(first: TupleSpace, spaces: Sequence[Any], device: Any) -> Any:
    if any(len(s) != len(first) for s in spaces):
        raise SpaceMismatchError("batch_differing_spaces: the lengths differ")
    children = [batch_differing_spaces([s[n] for s in spaces], device) for n in range(len(first))]
    return TupleSpace(first.backend, children, device, common_metadata(spaces))


def _require_common(spaces: Sequence[Any], *names: str) -> None:
    for name in names:
        if any(getattr(space, name) != getattr(spaces[0], name) for space in spaces):
            raise SpaceMismatchError(f"batch_differing_spaces: the spaces' {name} differ")


def unbatch_spaces(space: Any) -> Iterator[Any]:
    """The space of each row of a batch."""
    count = batch_size(space)
    if count is None:
        unsupported("unbatch_spaces", space)
    for row in range(count):
        yield row_space(space, row)


@singledispatch
def row_space(space: Any, row: int) -> Any:
    """The space of one row of a batch."""
    unsupported("unbatch_spaces", space)


def _row(bound: Any, row: int) -> Any:
    """One row of a compact bound."""
    return bound[row if bound.shape[0] > 1 else 0]


@row_space.register
def _(space: BoxSpace, row: int) -> Any:
    low, high = _row(space._host_low, row), _row(space._host_high, row)
    shape = space.shape[1:]
    return BoxSpace(space.backend, low, high, space.dtype, space.device, shape, space.metadata)


@row_space.register
def _(space: DynamicBoxSpace, row: int) -> Any:
    return DynamicBoxSpace(
        space.backend,
        _row(space._host_low, row),
        _row(space._host_high, row),
        space.shape_low[1:],
        space.shape_high[1:],
        space.dtype,
        space.device,
        space.fill_value,
        space.metadata,
    )


@row_space.register
def _(space: BinarySpace, row: int) -> Any:
    shape = space.shape[1:]
    return BinarySpace(space.backend, shape, space.dtype, space.device, space.metadata)


@row_space.register
def _(space: BatchedSpace, row: int) -> Any:
    rest = space.batch_shape[1:]
    return BatchedSpace(space.single_space, rest, space.metadata) if rest else space.single_space


@row_space.register
def _(space: GraphSpace, row: int) -> Any:
    return space.replace(batch_shape=space.batch_shape[1:])


@row_space.register
def _(space: DictSpace, row: int) -> Any:
    pairs = [(key, row_space(child, row)) for key, child in space.spaces.items()]
    return DictSpace(space.backend, pairs, space.device, space.metadata)


@row_space.register
def _(space: TupleSpace, row: int) -> Any:
    children = [row_space(child, row) for child in space.spaces]
    return TupleSpace(space.backend, children, space.device, space.metadata)
