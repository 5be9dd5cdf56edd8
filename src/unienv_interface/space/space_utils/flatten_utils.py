"""Samples as flat arrays, and back."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np

from unienv_interface.errors import SpaceMismatchError
from unienv_interface.space.space_utils._dispatch import unsupported
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
from unienv_interface.space.spaces._bounds import saturated
from unienv_interface.space.spaces._dtypes import host_dtype

__all__ = ["flat_dim", "flatten_data", "flatten_space", "is_flattenable", "unflatten_data"]


@singledispatch
def flat_dim(space: Any, start_dim: int = 0) -> int | None:
    """Elements of a flattened sample, from axis `start_dim` on; None when it has no flat form."""
    return None


@flat_dim.register(BoxSpace)
@flat_dim.register(BinarySpace)
def _(space: Any, start_dim: int = 0) -> int | None:
    return _size(space.shape, start_dim)


@flat_dim.register
def _(space: DynamicBoxSpace, start_dim: int = 0) -> int | None:
    return _size(space.shape_high, start_dim)


def _size(shape: tuple[int, ...], start_dim: int) -> int | None:
    return math.prod(shape[start_dim:]) if start_dim <= len(shape) else None


@flat_dim.register
def _(space: TextSpace, start_dim: int = 0) -> int | None:
    return space.max_length if space.charset is not None and start_dim == 0 else None


@flat_dim.register
def _(space: DictSpace, start_dim: int = 0) -> int | None:
    return _sum(space, start_dim)


@flat_dim.register
def _(space: TupleSpace, start_dim: int = 0) -> int | None:
    return _sum(space, start_dim)


@flat_dim.register
def _(space: UnionSpace, start_dim: int = 0) -> int | None:
    sizes = [flat_dim(child, start_dim) for child in space.spaces]
    if start_dim != 0 or any(size is None for size in sizes):
        return None
    return 1 + max(size for size in sizes if size is not None)


def _sum(space: Any, start_dim: int) -> int | None:
    children = [child for child in _children(space) if not _is_leafless(child)]
    if start_dim and not children:
        return None  # nothing knows the length of the batch
    total = 0
    for child in children:
        size = flat_dim(child, start_dim)
        if size is None:
            return None
        total += size
    return total


def _is_leafless(space: Any) -> bool:
    """Whether it is an empty Dict or Tuple, or a tree of those."""
    return isinstance(space, (DictSpace, TupleSpace)) and all(map(_is_leafless, _children(space)))


def is_flattenable(space: Any, start_dim: int = 0) -> bool:
    """Whether samples have a flat form."""
    return flat_dim(space, start_dim) is not None


def _children(space: Any) -> list[Any]:
    """Leaves in the order of the flat form: a DictSpace's by sorted key."""
    if isinstance(space, DictSpace):
        return [space.spaces[key] for key in _sorted_keys(space)]
    return list(space.spaces)


def _parts(space: Any, data: Any) -> list[Any]:
    if isinstance(space, DictSpace):
        return [data[key] for key in _sorted_keys(space)]
    return list(data)


def _sorted_keys(space: Any) -> list[Any]:
    try:
        return sorted(space.spaces)
    except TypeError:  # keys of several kinds have no order
        return list(space.spaces)


@singledispatch
def flatten_space(space: Any, start_dim: int = 0) -> Any:
    """The Box of flattened samples."""
    unsupported("flatten_space", space)


@flatten_space.register
def _(space: BoxSpace, start_dim: int = 0) -> Any:
    _check_start(space, start_dim)
    shape = (*space.shape[:start_dim], math.prod(space.shape[start_dim:]))
    low, high = (_flat_bound(b, space.shape, shape) for b in (space._host_low, space._host_high))
    return BoxSpace(space.backend, low, high, space.dtype, space.device, shape)


@flatten_space.register
def _(space: DynamicBoxSpace, start_dim: int = 0) -> Any:
    _check_start(space, start_dim)
    full = space.shape_high
    shape = (*full[:start_dim], math.prod(full[start_dim:]))
    low, high = (_flat_bound(b, full, shape) for b in (space._host_low, space._host_high))
    fill = space.fill_value
    low, high = np.minimum(low, fill), np.maximum(high, fill)
    return BoxSpace(space.backend, low, high, space.dtype, space.device, shape)


def _check_start(space: Any, start_dim: int) -> None:
    if flat_dim(space, start_dim) is None:
        unsupported(f"flattening from axis {start_dim} on", space)


def _flat_bound(bound: Any, shape: tuple[int, ...], flat: tuple[int, ...]) -> Any:
    if bound.size == 1:
        return bound.reshape((1,) * len(flat))
    return np.broadcast_to(bound, shape).reshape(flat)


@flatten_space.register
def _(space: BinarySpace, start_dim: int = 0) -> Any:
    shape = (*space.shape[:start_dim], math.prod(space.shape[start_dim:]))
    dtype = space.backend.default_integer_dtype
    return BoxSpace(space.backend, 0, 1, dtype, space.device, shape)


@flatten_space.register
def _(space: TextSpace, start_dim: int = 0) -> Any:
    if flat_dim(space, start_dim) is None:
        unsupported("flatten_space of a text without a charset, or in a batch,", space)
    dtype = space.backend.default_integer_dtype
    high = len(space._characters)
    return BoxSpace(space.backend, 0, high, dtype, space.device, (space.max_length,))


@flatten_space.register(DictSpace)
@flatten_space.register(TupleSpace)
def _(space: Any, start_dim: int = 0) -> Any:
    backend = space.backend
    leaves = [child for child in _children(space) if not _is_leafless(child)]
    boxes = [flatten_space(child, start_dim) for child in leaves]
    dtype = _promoted(backend, [box.dtype for box in boxes])
    if not boxes:
        _check_start(space, start_dim)
        return BoxSpace(backend, 0, 1, dtype, space.device, (0,))
    host = host_dtype(backend, dtype)
    low, high = (
        np.concatenate(
            [np.broadcast_to(b, box.shape).astype(host) for b, box in bounds], axis=start_dim
        )
        for bounds in (
            [(box._host_low, box) for box in boxes],
            [(box._host_high, box) for box in boxes],
        )
    )
    return BoxSpace(backend, low, high, dtype, space.device)


@flatten_space.register
def _(space: UnionSpace, start_dim: int = 0) -> Any:
    size = flat_dim(space, start_dim)
    if size is None:
        unsupported("flatten_space of a batch", space)
    boxes = [flatten_space(child) for child in space.spaces]
    dtype = _union_dtype(space, boxes)
    low, high = np.zeros(size), np.zeros(size)
    high[0] = len(boxes) - 1
    for box in boxes:  # beyond the smaller children there are zeros
        part = slice(1, 1 + box.shape[0])
        low[part] = np.minimum(low[part], box._host_low)
        high[part] = np.maximum(high[part], box._host_high)
    return BoxSpace(space.backend, low, high, dtype, space.device, (size,))


def _union_dtype(space: Any, boxes: list[Any]) -> Any:
    backend = space.backend
    return _promoted(backend, [backend.default_floating_dtype, *(box.dtype for box in boxes)])


@flatten_space.register(BatchedSpace)
@flatten_space.register(GraphSpace)
def _(space: Any, start_dim: int = 0) -> Any:
    unsupported("flatten_space", space)


def _array(backend: Any, value: Any) -> Any:
    return value if backend.is_backendarray(value) else backend.asarray(value)


def _promoted(backend: Any, dtypes: list[Any]) -> Any:
    if not dtypes:
        return backend.default_floating_dtype
    concrete = [backend.concrete_dtype(dtype) for dtype in dtypes]
    result = concrete[0]
    for dtype in concrete[1:]:
        result = backend.result_type(result, dtype)
    return result


@singledispatch
def flatten_data(space: Any, data: Any, start_dim: int = 0) -> Any:
    """A sample as one flat array; ``start_dim=1`` keeps one batch axis.

    Raises:
        NotImplementedError: The space has no flat form.
    """
    unsupported("flatten_data", space)


@flatten_data.register
def _(space: BoxSpace, data: Any, start_dim: int = 0) -> Any:
    return _flat(space, _array(space.backend, data), start_dim)


@flatten_data.register
def _(space: DynamicBoxSpace, data: Any, start_dim: int = 0) -> Any:
    return _flat(space, space.pad_data(_array(space.backend, data)), start_dim)


@flatten_data.register
def _(space: BinarySpace, data: Any, start_dim: int = 0) -> Any:
    backend = space.backend
    flat = _flat(space, _array(backend, data), start_dim)
    return backend.astype(flat, backend.concrete_dtype(backend.default_integer_dtype))


def _flat(space: Any, array: Any, start_dim: int) -> Any:
    _check_start(space, start_dim)
    shape = tuple(array.shape)
    return space.backend.reshape(array, (*shape[:start_dim], math.prod(shape[start_dim:])))


@flatten_data.register
def _(space: TextSpace, data: Any, start_dim: int = 0) -> Any:
    if flat_dim(space, start_dim) is None:
        unsupported("flatten_data of a text without a charset, or in a batch,", space)
    index, padding = space._index, len(space._characters)
    try:
        codes = [index[character] for character in data]
    except KeyError as error:
        raise SpaceMismatchError(f"flatten_data: {error} is not in the charset") from error
    if len(codes) > space.max_length:
        raise SpaceMismatchError(
            f"flatten_data: a text of {len(codes)} characters, at most {space.max_length} fit"
        )
    codes += [padding] * (space.max_length - len(codes))
    return space.backend.asarray(codes, dtype=space.backend.default_integer_dtype)


@flatten_data.register(DictSpace)
@flatten_data.register(TupleSpace)
def _(space: Any, data: Any, start_dim: int = 0) -> Any:
    backend = space.backend
    flats = [
        flatten_data(child, part, start_dim)
        for child, part in zip(_children(space), _parts(space, data), strict=True)
        if not _is_leafless(child)
    ]
    dtype = _promoted(backend, [flat.dtype for flat in flats])
    if not flats:
        _check_start(space, start_dim)
        return backend.zeros((0,), dtype=dtype, device=space.device)
    return backend.concat([backend.astype(flat, dtype) for flat in flats], axis=start_dim)


@flatten_data.register
def _(space: UnionSpace, data: Any, start_dim: int = 0) -> Any:
    size = flat_dim(space, start_dim)
    if size is None:
        unsupported("flatten_data of a batch", space)
    index, value = int(data[0]), data[1]
    backend = space.backend
    dtype = _union_dtype(space, [flatten_space(child) for child in space.spaces])
    flat = flatten_data(space.spaces[index], value)
    device = backend.device(flat)
    parts = [
        backend.full((1,), index, dtype=dtype, device=device),
        backend.astype(flat, dtype),
        backend.zeros((size - 1 - flat.shape[0],), dtype=dtype, device=device),
    ]
    return backend.concat(parts, axis=0)


@flatten_data.register(BatchedSpace)
@flatten_data.register(GraphSpace)
def _(space: Any, data: Any, start_dim: int = 0) -> Any:
    unsupported("flatten_data", space)


@singledispatch
def unflatten_data(space: Any, data: Any, start_dim: int = 0) -> Any:
    """The sample of a flat array, in the leaves' dtypes; never a view of its input."""
    unsupported("unflatten_data", space)


@unflatten_data.register
def _(space: BoxSpace, data: Any, start_dim: int = 0) -> Any:
    return _shaped(space, data, start_dim, space.shape)


@unflatten_data.register
def _(space: DynamicBoxSpace, data: Any, start_dim: int = 0) -> Any:
    array = _shaped(space, data, start_dim, space.shape_high)
    return array if start_dim else space.unpad_data(array)


def _shaped(space: Any, data: Any, start_dim: int, shape: tuple[int, ...]) -> Any:
    backend = space.backend
    cast = saturated(backend, data, space.dtype, copy=True)
    return backend.reshape(cast, (*tuple(data.shape)[:start_dim], *shape[start_dim:]))


@unflatten_data.register
def _(space: BinarySpace, data: Any, start_dim: int = 0) -> Any:
    shape = (*tuple(data.shape)[:start_dim], *space.shape[start_dim:])
    return space.backend.reshape(data != 0, shape)


@unflatten_data.register
def _(space: TextSpace, data: Any, start_dim: int = 0) -> Any:
    if flat_dim(space, start_dim) is None:
        unsupported("unflatten_data of a text without a charset, or in a batch,", space)
    characters = space._characters
    codes = [int(code) for code in np.asarray(space.backend.to_numpy(data)).tolist()]
    return "".join(characters[code] for code in codes if code < len(characters))


@unflatten_data.register(DictSpace)
@unflatten_data.register(TupleSpace)
def _(space: Any, data: Any, start_dim: int = 0) -> Any:
    parts, begin = [], 0
    before = (slice(None),) * start_dim
    for child in _children(space):
        if _is_leafless(child):
            parts.append(child.create_empty())
            continue
        size = flat_dim(child, start_dim)
        if size is None:
            unsupported("unflatten_data", child)
        index = (*before, slice(begin, begin + size))
        part = data[index]
        parts.append(unflatten_data(child, part, start_dim))
        begin += size
    if isinstance(space, DictSpace):
        by_key = dict(zip(_sorted_keys(space), parts, strict=True))
        return {key: by_key[key] for key in space.spaces}
    return tuple(parts)


@unflatten_data.register
def _(space: UnionSpace, data: Any, start_dim: int = 0) -> Any:
    if flat_dim(space, start_dim) is None:
        unsupported("unflatten_data of a batch", space)
    index = int(data[0])
    size = flat_dim(space.spaces[index]) or 0
    return index, unflatten_data(space.spaces[index], data[1 : 1 + size])


@unflatten_data.register(BatchedSpace)
@unflatten_data.register(GraphSpace)
def _(space: Any, data: Any, start_dim: int = 0) -> Any:
    unsupported("unflatten_data", space)
