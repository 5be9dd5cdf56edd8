"""Gymnasium's spaces and ours, both ways."""

from __future__ import annotations

import importlib
from functools import singledispatch
from typing import Any

import numpy as np

from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.errors import MissingDependencyError, UnsupportedSpaceError
from unienv_interface.space.space_utils._dispatch import unsupported
from unienv_interface.space.spaces import (
    BinarySpace,
    BoxSpace,
    DictSpace,
    GraphInstance,
    GraphSpace,
    TextSpace,
    TupleSpace,
    UnionSpace,
)
from unienv_interface.space.spaces._bounds import placed

__all__ = [
    "from_gym_data",
    "from_gym_space",
    "from_gymnasium",
    "to_gym_data",
    "to_gym_space",
    "to_gymnasium",
]


def _gymnasium() -> Any:
    try:
        return importlib.import_module("gymnasium.spaces")
    except ImportError as error:
        raise MissingDependencyError(
            "gymnasium is needed: pip install 'unienv-data[gymnasium]'", extra="gymnasium"
        ) from error


@singledispatch
def to_gymnasium(space: Any) -> Any:
    """Gymnasium's counterpart of a space.

    Box -> Box, Binary -> MultiBinary, Dict -> Dict, Tuple -> Tuple, Union -> OneOf, Text -> Text,
    Graph -> Graph. All printable ASCII stands in for a missing charset. Integer bounds beyond
    int64 are cut by Gymnasium.

    Raises:
        UnsupportedSpaceError: There is none.
        MissingDependencyError: gymnasium is not installed.
    """
    unsupported("to_gymnasium", space)


@to_gymnasium.register
def _(space: BoxSpace) -> Any:
    space = space.to(NumpyComputeBackend)
    dtype = np.dtype(space.dtype)
    low = np.array(space.low, dtype=dtype)
    high = np.array(space.high, dtype=dtype)
    return _gymnasium().Box(low, high, space.shape, dtype)


@to_gymnasium.register
def _(space: BinarySpace) -> Any:
    return _gymnasium().MultiBinary(space.shape)


@to_gymnasium.register
def _(space: GraphSpace) -> Any:
    nodes, edges = space.node_feature_space, space.edge_feature_space
    if nodes is None or space.batch_shape or (space.is_edge and edges is None):
        unsupported("to_gymnasium without features, or of a batch,", space)
    return _gymnasium().Graph(to_gymnasium(nodes), None if edges is None else to_gymnasium(edges))


@to_gymnasium.register
def _(space: DictSpace) -> Any:
    return _gymnasium().Dict([(key, to_gymnasium(child)) for key, child in space.spaces.items()])


@to_gymnasium.register
def _(space: TupleSpace) -> Any:
    return _gymnasium().Tuple([to_gymnasium(child) for child in space.spaces])


@to_gymnasium.register
def _(space: UnionSpace) -> Any:
    return _gymnasium().OneOf([to_gymnasium(child) for child in space.spaces])


@to_gymnasium.register
def _(space: TextSpace) -> Any:
    charset = space.charset
    if charset is None:
        charset = frozenset(chr(code) for code in range(32, 127))
    return _gymnasium().Text(space.max_length, min_length=space.min_length, charset=charset)


def from_gymnasium(
    space: Any, backend: Any = NumpyComputeBackend, dtype: Any = None, device: Any = None
) -> Any:
    """Our counterpart of one of Gymnasium's spaces.

    Box -> Box, Discrete(n, start) -> Box of shape () from start to start + n - 1, MultiDiscrete ->
    Box, MultiBinary -> Binary, Dict -> Dict, Tuple -> Tuple, OneOf -> Union, Text -> Text, Graph ->
    Graph.

    Args:
        space: Gymnasium's space.
        backend: Array backend of the result.
        dtype: Dtype of a Box instead of Gymnasium's, for a space that is one alone.
        device: Where samples lie.

    Raises:
        UnsupportedSpaceError: There is none, as of a Sequence.
        MissingDependencyError: gymnasium is not installed.
    """
    made = _from(space, _gymnasium())
    if backend is not NumpyComputeBackend or device is not None:
        made = made.to(backend, device)
    if dtype is not None and isinstance(made, BoxSpace):
        low, high = made._host_low, made._host_high
        made = BoxSpace(backend, low, high, dtype, device, made.shape)
    return made


def to_gym_data(space: Any, data: Any) -> Any:
    """A sample as Gymnasium's counterpart of the space holds it."""
    return _convert(space, data, to_gym=True)


def from_gym_data(space: Any, data: Any) -> Any:
    """The sample of `space` that a sample of Gymnasium's counterpart stands for."""
    return _convert(space, data, to_gym=False)


to_gym_space = to_gymnasium
"""The original library's name of `to_gymnasium`."""


def from_gym_space(
    gym_space: Any, backend: Any = NumpyComputeBackend, dtype: Any = None, device: Any = None
) -> Any:
    """The original library's name of `from_gymnasium`."""
    return from_gymnasium(gym_space, backend, dtype, device)


@singledispatch
def _convert(space: Any, data: Any, *, to_gym: bool) -> Any:
    return data


@_convert.register
def _(space: BoxSpace, data: Any, *, to_gym: bool) -> Any:
    backend = space.backend
    if to_gym:
        return np.asarray(backend.to_numpy(data))
    return placed(backend, np.array(data), space.dtype, space.device)


@_convert.register
def _(space: BinarySpace, data: Any, *, to_gym: bool) -> Any:
    backend = space.backend
    if to_gym:
        return np.asarray(backend.to_numpy(data)).astype(np.int8)
    return placed(backend, np.asarray(data) != 0, space.dtype, space.device)


@_convert.register
def _(space: DictSpace, data: Any, *, to_gym: bool) -> Any:
    return {key: _convert(child, data[key], to_gym=to_gym) for key, child in space.spaces.items()}


@_convert.register
def _(space: TupleSpace, data: Any, *, to_gym: bool) -> Any:
    return tuple(
        _convert(child, value, to_gym=to_gym)
        for child, value in zip(space.spaces, data, strict=True)
    )


@_convert.register
def _(space: UnionSpace, data: Any, *, to_gym: bool) -> Any:
    index = int(data[0])
    value = _convert(space.spaces[index], data[1], to_gym=to_gym)
    return (np.int64(index), value) if to_gym else (index, value)


@_convert.register
def _(space: GraphSpace, data: Any, *, to_gym: bool) -> Any:
    backend = space.backend
    if to_gym:
        parts = (data.nodes_features, data.edges_features, data.edges)
        arrays = [None if part is None else np.asarray(backend.to_numpy(part)) for part in parts]
        return _gymnasium().GraphInstance(*arrays)

    def features(child: Any, values: Any) -> Any:
        return None if values is None else placed(backend, values, child.dtype, space.device)

    def index(values: Any) -> Any:
        return placed(backend, np.asarray(values), backend.default_index_dtype, space.device)

    nodes = features(space.node_feature_space, data.nodes)
    edges = features(space.edge_feature_space, data.edges)
    links = None if data.edge_links is None else index(data.edge_links)
    count = None if data.edge_links is None else index(len(data.edge_links))
    return GraphInstance(index(len(data.nodes)), count, nodes, edges, links)


def _from(space: Any, gym: Any) -> Any:
    numpy = NumpyComputeBackend
    if isinstance(space, gym.Box):
        return BoxSpace(numpy, space.low, space.high, np.dtype(space.dtype).type, shape=space.shape)
    if isinstance(space, gym.Discrete):
        start, count = int(space.start), int(space.n)
        dtype = np.dtype(space.dtype).type
        return BoxSpace(numpy, start, start + count - 1, dtype, shape=())
    if isinstance(space, gym.MultiDiscrete):
        low = np.asarray(space.start)
        high = low + np.asarray(space.nvec) - 1
        return BoxSpace(numpy, low, high, np.dtype(space.dtype).type, shape=space.shape)
    if isinstance(space, gym.MultiBinary):
        return BinarySpace(numpy, space.shape)
    if isinstance(space, gym.Dict):
        return DictSpace(numpy, [(str(key), _from(child, gym)) for key, child in space.items()])
    if isinstance(space, gym.OneOf):
        return UnionSpace(numpy, [_from(child, gym) for child in space.spaces])
    if isinstance(space, gym.Tuple):
        return TupleSpace(numpy, [_from(child, gym) for child in space.spaces])
    if isinstance(space, gym.Text):
        return TextSpace(
            numpy, space.max_length, min_length=space.min_length, charset=space.character_set
        )
    if isinstance(space, gym.Graph):
        edges = None if space.edge_space is None else _from(space.edge_space, gym)
        return GraphSpace(numpy, _from(space.node_space, gym), edges, edges is not None)
    kind = type(space).__name__
    raise UnsupportedSpaceError(f"Gymnasium's {kind} has no counterpart here", found=kind)
