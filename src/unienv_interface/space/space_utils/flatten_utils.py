"""Samples as flat arrays, and back."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np

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

__all__ = ["flat_dim", "flatten_data", "flatten_space", "is_flattenable", "unflatten_data"]


@singledispatch
def flat_dim(space: Any, start_dim: int = 0) -> int | None:
    """Elements of a flattened sample, from axis `start_dim` on; None when it has no flat form."""
    return None


@flat_dim.register(BoxSpace)
@flat_dim.register(BinarySpace)
def _(space: Any, start_dim: int = 0) -> int | None:
    size: int = math.prod(space.shape[start_dim:])
    return size


@flat_dim.register
def _(space: TextSpace, start_dim: int = 0) -> int | None:
    return space.max_length if space.charset is not None and start_dim == 0 else None


@flat_dim.register
def _(space: DictSpace, start_dim: int = 0) -> int | None:
    return _sum([flat_dim(child, start_dim) for child in space.spaces.values()])


@flat_dim.register
def _(space: TupleSpace, start_dim: int = 0) -> int | None:
    return _sum([flat_dim(child, start_dim) for child in space.spaces])


@flat_dim.register
def _(space: UnionSpace, start_dim: int = 0) -> int | None:
    sizes = [flat_dim(child, start_dim) for child in space.spaces]
    if start_dim != 0 or any(size is None for size in sizes):
        return None
    return 1 + max(size for size in sizes if size is not None)


def _sum(sizes: list[int | None]) -> int | None:
    return None if any(size is None for size in sizes) else sum(s for s in sizes if s is not None)


def is_flattenable(space: Any, start_dim: int = 0) -> bool:
    """Whether samples have a flat form."""
    return flat_dim(space, start_dim) is not None


def _children(space: Any) -> list[Any]:
    """Leaves in the order of the flat form: a DictSpace's by sorted key."""
    if isinstance(space, DictSpace):
        return [space.spaces[key] for key in sorted(space.spaces)]
    return list(space.spaces)


def _parts(space: Any, data: Any) -> list[Any]:
    if isinstance(space, DictSpace):
        return [data[key] for key in sorted(space.spaces)]
    return list(data)


@singledispatch
def flatten_space(space: Any, start_dim: int = 0) -> Any:
    """The Box of flattened samples."""
    unsupported("flatten_space", space)


@flatten_space.register
def _(space: BoxSpace, start_dim: int = 0) -> Any:
    shape = (*space.shape[:start_dim], math.prod(space.shape[start_dim:]))
    reshape = space.backend.reshape
    low, high = reshape(space.low, shape), reshape(space.high, shape)
    return BoxSpace(space.backend, low, high, space.dtype, space.device, shape)


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
    high = len(space.charset_list)
    return BoxSpace(space.backend, 0, high, dtype, space.device, (space.max_length,))


@flatten_space.register(DictSpace)
@flatten_space.register(TupleSpace)
def _(space: Any, start_dim: int = 0) -> Any:
    backend = space.backend
    boxes = [flatten_space(child, start_dim) for child in _children(space)]
    dtype = _promoted(backend, [box.dtype for box in boxes])
    low = backend.concat(
        [backend.astype(_array(backend, b.low), dtype) for b in boxes], axis=start_dim
    )
    high = backend.concat(
        [backend.astype(_array(backend, b.high), dtype) for b in boxes], axis=start_dim
    )
    return BoxSpace(backend, low, high, dtype, space.device)


@flatten_space.register
def _(space: UnionSpace, start_dim: int = 0) -> Any:
    size = flat_dim(space, start_dim)
    if size is None:
        unsupported("flatten_space of a batch", space)
    backend = space.backend
    boxes = [flatten_space(child, 0) for child in space.spaces]
    dtype = _promoted(backend, [backend.default_integer_dtype, *(box.dtype for box in boxes)])
    low, high = np.zeros(size), np.zeros(size)
    high[0] = len(boxes) - 1
    for box in boxes:
        count = box.shape[0]
        box_low = np.asarray(backend.to_numpy(box.low), np.float64)
        box_high = np.asarray(backend.to_numpy(box.high), np.float64)
        low[1 : 1 + count] = np.minimum(low[1 : 1 + count], box_low)
        high[1 : 1 + count] = np.maximum(high[1 : 1 + count], box_high)
    return BoxSpace(backend, low, high, dtype, space.device, (size,))


@flatten_space.register
def _(space: BatchedSpace, start_dim: int = 0) -> Any:
    unsupported("flatten_space", space)


def _array(backend: Any, value: Any) -> Any:
    return value if backend.is_backendarray(value) else backend.asarray(value)


def _promoted(backend: Any, dtypes: list[Any]) -> Any:
    if not dtypes:
        return backend.default_floating_dtype
    concrete = [backend.zeros((), dtype=dtype).dtype for dtype in dtypes]
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
    array = _array(space.backend, data)
    shape = tuple(array.shape)
    return space.backend.reshape(array, (*shape[:start_dim], math.prod(shape[start_dim:])))


@flatten_data.register
def _(space: BinarySpace, data: Any, start_dim: int = 0) -> Any:
    array = _array(space.backend, data)
    shape = tuple(array.shape)
    flat = space.backend.reshape(array, (*shape[:start_dim], math.prod(shape[start_dim:])))
    return space.backend.astype(flat, space.backend.default_integer_dtype)


@flatten_data.register
def _(space: TextSpace, data: Any, start_dim: int = 0) -> Any:
    if flat_dim(space, start_dim) is None:
        unsupported("flatten_data of a text without a charset, or in a batch,", space)
    index, padding = space.charset_index, len(space.charset_list)
    codes = [index[character] for character in data]
    codes += [padding] * (space.max_length - len(codes))
    return space.backend.asarray(codes, dtype=space.backend.default_integer_dtype)


@flatten_data.register(DictSpace)
@flatten_data.register(TupleSpace)
def _(space: Any, data: Any, start_dim: int = 0) -> Any:
    backend = space.backend
    flats = [
        flatten_data(child, part, start_dim)
        for child, part in zip(_children(space), _parts(space, data), strict=True)
    ]
    dtype = _promoted(backend, [flat.dtype for flat in flats])
    return backend.concat([backend.astype(flat, dtype) for flat in flats], axis=start_dim)


@flatten_data.register
def _(space: UnionSpace, data: Any, start_dim: int = 0) -> Any:
    size = flat_dim(space, start_dim)
    if size is None:
        unsupported("flatten_data of a batch", space)
    index, value = data
    backend = space.backend
    dtype = flatten_space(space).dtype
    flat = np.zeros(size, dtype=np.float64)
    values = np.asarray(backend.to_numpy(flatten_data(space.spaces[int(index)], value)))
    array = flat.astype(backend.to_numpy(backend.zeros((), dtype=dtype)).dtype)
    array[0] = int(index)
    array[1 : 1 + len(values)] = values
    return backend.from_numpy(array, device=space.device)


@flatten_data.register
def _(space: BatchedSpace, data: Any, start_dim: int = 0) -> Any:
    unsupported("flatten_data", space)


@singledispatch
def unflatten_data(space: Any, data: Any, start_dim: int = 0) -> Any:
    """The sample of a flat array, in the leaves' dtypes; never a view of its input."""
    unsupported("unflatten_data", space)


@unflatten_data.register
def _(space: BoxSpace, data: Any, start_dim: int = 0) -> Any:
    backend = space.backend
    cast = backend.astype(data, backend.zeros((), dtype=space.dtype).dtype, copy=True)
    return backend.reshape(cast, (*tuple(data.shape)[:start_dim], *space.shape[start_dim:]))


@unflatten_data.register
def _(space: BinarySpace, data: Any, start_dim: int = 0) -> Any:
    shape = (*tuple(data.shape)[:start_dim], *space.shape[start_dim:])
    return space.backend.reshape(data != 0, shape)


@unflatten_data.register
def _(space: TextSpace, data: Any, start_dim: int = 0) -> Any:
    if flat_dim(space, start_dim) is None:
        unsupported("unflatten_data of a text without a charset, or in a batch,", space)
    characters = space.charset_list
    codes = [int(code) for code in np.asarray(space.backend.to_numpy(data)).tolist()]
    return "".join(characters[code] for code in codes if code < len(characters))


@unflatten_data.register(DictSpace)
@unflatten_data.register(TupleSpace)
def _(space: Any, data: Any, start_dim: int = 0) -> Any:
    parts, begin = [], 0
    before = (slice(None),) * start_dim
    for child in _children(space):
        size = flat_dim(child, start_dim)
        if size is None:
            unsupported("unflatten_data", child)
        index = (*before, slice(begin, begin + size))
        part = data[index]
        parts.append(unflatten_data(child, part, start_dim))
        begin += size
    if isinstance(space, DictSpace):
        by_key = dict(zip(sorted(space.spaces), parts, strict=True))
        return {key: by_key[key] for key in space.spaces}
    return tuple(parts)


@unflatten_data.register
def _(space: UnionSpace, data: Any, start_dim: int = 0) -> Any:
    if flat_dim(space, start_dim) is None:
        unsupported("unflatten_data of a batch", space)
    index = int(data[0])
    size = flat_dim(space.spaces[index]) or 0
    return index, unflatten_data(space.spaces[index], data[1 : 1 + size])


@unflatten_data.register
def _(space: BatchedSpace, data: Any, start_dim: int = 0) -> Any:
    unsupported("unflatten_data", space)
