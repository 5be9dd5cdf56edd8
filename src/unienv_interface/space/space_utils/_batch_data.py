"""Batches of samples: rows read, replaced, and stacked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from unienv_interface.errors import SpaceMismatchError
from unienv_interface.space.space_utils._batch_space import row_space
from unienv_interface.space.space_utils._dispatch import unsupported
from unienv_interface.space.spaces import (
    BatchedSpace,
    BinarySpace,
    BoxSpace,
    DictSpace,
    DynamicBoxSpace,
    GraphInstance,
    GraphSpace,
    TextSpace,
    TupleSpace,
    UnionSpace,
)

__all__ = ["batch_size_data", "concatenate", "get_at", "graph_arrays", "iterate", "set_at"]


def batch_size_data(data: Any) -> int | None:
    """Length of the leading axis of the first array in nested data.

    Returns:
        The length, or None for an array without axes and for empty mappings and sequences.

    Raises:
        TypeError: There is something else than arrays, mappings and sequences.
    """
    if isinstance(data, Mapping):
        return _first_data_size(data.values())
    if isinstance(data, (list, tuple)):
        return _first_data_size(data)
    if isinstance(data, GraphInstance):
        return batch_size_data(data.n_nodes)
    shape = getattr(data, "shape", None)
    if shape is None or isinstance(data, np.generic):
        raise TypeError(f"batch_size_data: {type(data).__name__} is no batch")
    return int(shape[0]) if len(shape) else None


def _first_data_size(values: Iterable[Any]) -> int | None:
    for value in values:
        size = batch_size_data(value)
        if size is not None:
            return size
    return None


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
def _(space: DynamicBoxSpace, items: Any, index: Any) -> Any:
    value = items[index]
    if not space.backend.is_backendarray(value):
        return space.backend.asarray(value)
    # The space of the batch has one more axis, unless that of one sample was given.
    if _is_row(index) and len(value.shape) == len(space.shape_low) - 1:
        return row_space(space, 0).unpad_data(value)
    return value


@get_at.register
def _(space: GraphSpace, items: Any, index: Any) -> Any:
    parts = [None if array is None else array[index] for array in graph_arrays(items)]
    rows: list[Any] = [
        part if part is None or space.backend.is_backendarray(part) else space.backend.asarray(part)
        for part in parts
    ]
    if len(rows[0].shape):
        return GraphInstance(*rows)
    n_nodes = int(rows[0])
    n_edges = None if rows[1] is None else int(rows[1])
    lengths = (None, None, n_nodes, n_edges, n_edges)  # the padding goes
    return GraphInstance(
        *(
            row if row is None or length is None else row[:length]
            for row, length in zip(rows, lengths, strict=True)
        )
    )


@get_at.register(BatchedSpace)
@get_at.register(TextSpace)
@get_at.register(UnionSpace)
def _(space: Any, items: Any, index: Any) -> Any:
    return items[_for_numpy(space, index)]


def graph_arrays(graph: Any) -> tuple[Any, ...]:
    """The fields of a graph, in order."""
    return (graph.n_nodes, graph.n_edges, graph.nodes_features, graph.edges_features, graph.edges)


def _is_row(index: Any) -> bool:
    """Whether an index chooses one row, and so takes an axis away."""
    return not isinstance(index, bool) and hasattr(index, "__index__") and not _axes_of(index)


def _is_element(index: Any, axes: int) -> bool:
    """Whether an index chooses one element of an array."""
    entries = index if isinstance(index, tuple) else (index,)
    return len(entries) == axes and all(map(_is_row, entries))


def _axes_of(index: Any) -> int:
    return len(getattr(index, "shape", ()))


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
def _(space: DynamicBoxSpace, items: Any, index: Any, value: Any) -> Any:
    if not space.backend.is_backendarray(value):
        return space.backend.at(items)[index].set(value)
    first = 0 if _is_row(index) else 1  # the first axis of a single sample
    lengths = [
        max(have, new) for have, new in zip(items.shape[1:], value.shape[first:], strict=True)
    ]
    items = _padded(space.backend, items, 1, lengths, space.fill_value)
    value = _padded(space.backend, value, first, lengths, space.fill_value)
    return space.backend.at(items)[index].set(value)


@set_at.register
def _(space: GraphSpace, items: Any, index: Any, value: Any) -> Any:
    first = 0 if _is_row(index) else 1
    result = []
    for have, new in zip(graph_arrays(items), graph_arrays(value), strict=True):
        if have is None or new is None:
            result.append(have)
            continue
        lengths = [max(a, b) for a, b in zip(have.shape[1:], new.shape[first:], strict=True)]
        wide = _padded(space.backend, have, 1, lengths, 0)
        row = _padded(space.backend, new, first, lengths, 0)
        result.append(space.backend.at(wide)[index].set(row))
    return GraphInstance(*result)


def _padded(backend: Any, array: Any, first: int, lengths: Sequence[int], fill: Any) -> Any:
    for axis, length in enumerate(lengths, start=first):
        array = backend.pad_dim(array, axis, length, fill)
    return array


@set_at.register(BatchedSpace)
@set_at.register(TextSpace)
@set_at.register(UnionSpace)
def _(space: Any, items: Any, index: Any, value: Any) -> Any:
    result = items.copy()
    place = _for_numpy(space, index)
    single = space.single_space if isinstance(space, BatchedSpace) else space
    if isinstance(value, (np.ndarray, str)) or _is_element(place, items.ndim):
        result[place] = value
    elif isinstance(value, (list, tuple)) and isinstance(single, TextSpace):
        result[place] = np.array(value, dtype=object)
    elif isinstance(value, list):
        result[place] = _objects(value)
    else:  # numpy would take a tuple, the sample of a union, for a row of values
        one = np.empty((), dtype=object)
        one[()] = value
        result[place] = one
    return result


def _objects(samples: Sequence[Any]) -> Any:
    """A numpy object array with these elements, whatever they are."""
    result = np.empty(len(samples), dtype=object)
    for position, sample in enumerate(samples):
        result[position] = sample
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
    arrays = list(items)
    if not all(map(backend.is_backendarray, arrays)):
        arrays = [x if backend.is_backendarray(x) else backend.asarray(x) for x in arrays]
    if arrays:
        return backend.stack(arrays, axis=axis)
    return backend.zeros((0, *space.shape), dtype=space.dtype, device=space.device)


@concatenate.register
def _(space: DynamicBoxSpace, items: Iterable[Any], axis: int = 0) -> Any:
    samples = list(items)
    if not samples:
        shape = (0, *space.shape_high)
        return space.backend.zeros(shape, dtype=space.dtype, device=space.device)
    return space.backend.stack(_alike(space.backend, samples, space.fill_value), axis=axis)


@concatenate.register
def _(space: GraphSpace, items: Iterable[Any], axis: int = 0) -> Any:
    samples = list(items)
    if not samples:
        raise SpaceMismatchError("concatenate: no graph to make a batch of")
    columns: list[Any] = []
    for parts in zip(*map(graph_arrays, samples), strict=True):
        if parts[0] is None:
            columns.append(None)
        else:
            columns.append(space.backend.stack(_alike(space.backend, parts, 0), axis=axis))
    return GraphInstance(*columns)


def _alike(backend: Any, arrays: Sequence[Any], fill: Any) -> list[Any]:
    """Arrays padded to their greatest lengths."""
    lengths = [max(each) for each in zip(*(tuple(array.shape) for array in arrays), strict=True)]
    return [_padded(backend, array, 0, lengths, fill) for array in arrays]


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
    return _objects(list(items))


@concatenate.register
def _(space: BatchedSpace, items: Iterable[Any], axis: int = 0) -> Any:
    arrays = list(items)
    return np.stack(arrays, axis=axis) if arrays else np.empty((0, *space.batch_shape), object)


def iterate(space: Any, items: Any) -> Iterator[Any]:
    """The rows of a batch, one after the other; as many as there are in the data."""
    count = batch_size_data(items)
    if count is None:
        raise SpaceMismatchError("iterate: the data has no leading axis")
    for row in range(count):
        yield get_at(space, items, row)
