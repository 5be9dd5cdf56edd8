"""Graphs: features of nodes, and edges with or without features."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Generic

import numpy as np
from typing_extensions import override

from unienv_interface.backends.base import BArrayType, BDeviceType, BDtypeType, BRNGType
from unienv_interface.errors import SpaceDefinitionError
from unienv_interface.space.space import Boundedness, Space, check_manner, check_shape
from unienv_interface.space.spaces._bounds import clipped, placed
from unienv_interface.space.spaces._dtypes import castable
from unienv_interface.space.spaces._sampling import draw
from unienv_interface.space.spaces.box import BoxSpace
from unienv_interface.space.spaces.dict import common_device

__all__ = ["GraphInstance", "GraphSpace"]


@dataclasses.dataclass(eq=False)
class GraphInstance(Generic[BArrayType]):
    """One graph, or a batch of graphs padded to the largest with zeros.

    Attributes:
        n_nodes: Number of nodes, integers of the batch's shape.
        n_edges: Number of edges, likewise; None without edges.
        nodes_features: Shape ``(*batch, nodes, *feature)``.
        edges_features: Shape ``(*batch, edges, *feature)``.
        edges: Start and end node of each edge, integers of shape ``(*batch, edges, 2)``.
    """

    n_nodes: BArrayType
    n_edges: BArrayType | None = None
    nodes_features: BArrayType | None = None
    edges_features: BArrayType | None = None
    edges: BArrayType | None = None


class GraphSpace(Space[GraphInstance[Any], BDeviceType, BDtypeType, BRNGType]):
    """Graphs with limited numbers of nodes and edges.

    Args:
        backend: Array backend.
        node_feature_space: Features of one node, None for none.
        edge_feature_space: Features of one edge, None for none.
        is_edge: Whether there are edges.
        min_nodes: Least number of nodes, from 1 on.
        max_nodes: Greatest number, None for no limit.
        min_edges: Least number of edges, when there are edges.
        max_edges: Greatest number, None for no limit.
        batch_shape: Shape of a batch, ``()`` for single graphs.
        device: By default the common device of the features.
        metadata: JSON data.

    Raises:
        SpaceDefinitionError: Features that are no Box of this backend, or limits that contradict
            each other.
    """

    def __init__(
        self,
        backend: Any,
        node_feature_space: BoxSpace[Any, Any, Any] | None,
        edge_feature_space: BoxSpace[Any, Any, Any] | None = None,
        is_edge: bool = False,
        min_nodes: int = 1,
        max_nodes: int | None = None,
        min_edges: int = 1,
        max_edges: int | None = None,
        batch_shape: Any = (),
        device: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        features: list[Any] = [node_feature_space, edge_feature_space]
        for space in features:
            if space is not None and not (isinstance(space, BoxSpace) and space.backend is backend):
                raise SpaceDefinitionError(
                    f"GraphSpace: features are a BoxSpace of backend {backend!r}, got {space!r}"
                )
        if edge_feature_space is not None and not is_edge:
            raise SpaceDefinitionError("GraphSpace: features of edges without edges")
        if min_nodes < 1 or min_edges < 0:
            raise SpaceDefinitionError(
                f"GraphSpace: at least one node, and no negative number of edges; got {min_nodes} "
                f"and {min_edges}"
            )
        for name, least, most in (
            ("nodes", min_nodes, max_nodes),
            ("edges", min_edges, max_edges),
        ):
            if most is not None and most < least:
                raise SpaceDefinitionError(f"GraphSpace: {least} to {most} {name} are no range")
        if device is None:
            device = common_device([space for space in features if space is not None])
        super().__init__(backend, device=device, metadata=metadata)
        self.node_feature_space = node_feature_space
        self.edge_feature_space = edge_feature_space
        self.is_edge = is_edge
        self.min_nodes, self.max_nodes = min_nodes, max_nodes
        self.min_edges, self.max_edges = min_edges, max_edges
        self.batch_shape = check_shape(batch_shape)

    def replace(self, **changes: Any) -> GraphSpace[BDeviceType, BDtypeType, BRNGType]:
        """The same space with other arguments."""
        arguments: dict[str, Any] = {
            "backend": self.backend,
            "node_feature_space": self.node_feature_space,
            "edge_feature_space": self.edge_feature_space,
            "is_edge": self.is_edge,
            "min_nodes": self.min_nodes,
            "max_nodes": self.max_nodes,
            "min_edges": self.min_edges,
            "max_edges": self.max_edges,
            "batch_shape": self.batch_shape,
            "device": self.device,
            "metadata": self._metadata,
        }
        return GraphSpace(**{**arguments, **changes})

    @override
    def to(self, backend: Any = None, device: Any = None) -> Any:
        if not self._moves(backend, device):
            return self
        nodes, edges = self.node_feature_space, self.edge_feature_space
        return self.replace(
            backend=self.backend if backend is None else backend,
            node_feature_space=None if nodes is None else nodes.to(backend, device),
            edge_feature_space=None if edges is None else edges.to(backend, device),
            device=device,
        )

    @override
    def sample(self, rng: Any) -> tuple[Any, GraphInstance[Any]]:
        rng, n_nodes = self._counts(rng, self.min_nodes, self.max_nodes)
        rng, nodes = self._features(rng, self.node_feature_space, n_nodes)
        if not self.is_edge:
            return rng, GraphInstance(self._index(n_nodes), None, nodes)
        rng, n_edges = self._counts(rng, self.min_edges, self.max_edges)
        rng, edges_features = self._features(rng, self.edge_feature_space, n_edges)
        most = int(n_edges.max(initial=0))
        rng, edges = draw(
            self.backend,
            (*self.batch_shape, most, 2),
            np.zeros((1,) * (len(self.batch_shape) + 2), np.int64),
            np.asarray(n_nodes - 1)[..., None, None],
            rng,
        )
        edges[_padding(n_edges, most)] = 0
        return rng, GraphInstance(
            self._index(n_nodes), self._index(n_edges), nodes, edges_features, self._index(edges)
        )

    def _counts(self, rng: Any, least: int, most: int | None) -> tuple[Any, Any]:
        random, shape = self.backend.random, self.batch_shape
        if most is None:
            rng, drawn = random.random_geometric(shape, 0.25, rng=rng)
            counts = np.asarray(self.backend.to_numpy(drawn).astype(np.int64) + (least - 1))
        else:
            rng, drawn = random.random_discrete_uniform(shape, least, most + 1, rng=rng)
            counts = np.asarray(self.backend.to_numpy(drawn)).astype(np.int64)
        return rng, counts

    def _features(self, rng: Any, space: Any, counts: Any) -> tuple[Any, Any]:
        if space is None:
            return rng, None
        most = int(counts.max(initial=0))
        rng, values = draw(
            self.backend,
            (*self.batch_shape, most, *space.shape),
            space._host_low,
            space._host_high,
            rng,
        )
        values[_padding(counts, most)] = 0
        return rng, placed(self.backend, values, space.dtype, self.device)

    def _index(self, values: Any) -> Any:
        dtype = self.backend.default_index_dtype
        return placed(self.backend, np.asarray(values), dtype, self.device)

    @override
    def create_empty(self) -> GraphInstance[Any]:
        """Graphs with the least numbers of nodes and edges; features are zero."""
        shape = self.batch_shape

        def zeros(space: Any, count: int) -> Any:
            if space is None:
                return None
            axes = (*shape, count, *space.shape)
            return self.backend.zeros(axes, dtype=space.dtype, device=self.device)

        n_nodes = self._index(np.full(shape, self.min_nodes, np.int64))
        nodes = zeros(self.node_feature_space, self.min_nodes)
        if not self.is_edge:
            return GraphInstance(n_nodes, None, nodes)
        return GraphInstance(
            n_nodes,
            self._index(np.full(shape, self.min_edges, np.int64)),
            nodes,
            zeros(self.edge_feature_space, self.min_edges),
            self._index(np.zeros((*shape, self.min_edges, 2), np.int64)),
        )

    @override
    def is_bounded(self, manner: Boundedness = "both") -> bool:
        check_manner(manner)
        spaces = (self.node_feature_space, self.edge_feature_space)
        return all(space is None or space.is_bounded(manner) for space in spaces)

    @override
    def contains(self, x: Any) -> bool:
        """Whether `x` is a member; padding in batches may hold anything."""
        if not isinstance(x, GraphInstance):
            return False
        n_nodes = self._host_counts(x.n_nodes, self.min_nodes, self.max_nodes)
        if n_nodes is None:
            return False
        if not self._holds_features(self.node_feature_space, x.nodes_features, n_nodes):
            return False
        if not self.is_edge:
            return x.n_edges is None and x.edges_features is None and x.edges is None
        n_edges = self._host_counts(x.n_edges, self.min_edges, self.max_edges)
        if n_edges is None:
            return False
        if not self._holds_features(self.edge_feature_space, x.edges_features, n_edges):
            return False
        return self._holds_edges(x.edges, n_nodes, n_edges)

    def _host_counts(self, counts: Any, least: int, most: int | None) -> Any:
        """Counts as a numpy array, None when they are not allowed."""
        backend = self.backend
        if not backend.is_backendarray(counts) or tuple(counts.shape) != self.batch_shape:
            return None
        if not backend.dtype_is_real_integer(counts.dtype):
            return None
        values = np.asarray(backend.to_numpy(counts))
        allowed = bool((values >= least).all()) and (most is None or bool((values <= most).all()))
        return values if allowed else None

    def _fits(self, array: Any, counts: Any, rest: tuple[int, ...]) -> bool:
        if not self.backend.is_backendarray(array):
            return False
        shape, axes = tuple(array.shape), len(self.batch_shape)
        if len(shape) != axes + 1 + len(rest):
            return False
        if shape[:axes] != self.batch_shape or shape[axes + 1 :] != rest:
            return False
        most = int(counts.max(initial=0))
        return bool(shape[axes] >= most if axes else shape[axes] == most)

    def _holds_features(self, space: Any, features: Any, counts: Any) -> bool:
        if space is None:
            return features is None
        if not self._fits(features, counts, space.shape):
            return False
        length = int(features.shape[len(self.batch_shape)])
        if not self.batch_shape:
            rows = BoxSpace(
                space.backend,
                space._low[None],
                space._high[None],
                space.dtype,
                shape=(length, *space.shape),
            )
            return rows.contains(features)
        # Rows of padding are not looked at: only the others are compared.
        values = np.asarray(self.backend.to_numpy(features))[~_padding(counts, length)]
        within = (values >= space._host_low) & (values <= space._host_high)
        return bool(within.all()) and castable(self.backend, features.dtype, space.dtype)

    def _holds_edges(self, edges: Any, n_nodes: Any, n_edges: Any) -> bool:
        if not self._fits(edges, n_edges, (2,)):
            return False
        if not self.backend.dtype_is_real_integer(edges.dtype):
            return False
        values = np.asarray(self.backend.to_numpy(edges))
        length = int(values.shape[len(self.batch_shape)])
        within = (values >= 0) & (values < n_nodes[..., None, None])
        return bool((within.all(axis=-1) | _padding(n_edges, length)).all())

    @override
    def clip(self, x: Any) -> Any:
        def limited(space: Any, features: Any) -> Any:
            if space is None or features is None:
                return features
            return clipped(self.backend, features, space._low, space._high, space.dtype)

        return dataclasses.replace(
            x,
            nodes_features=limited(self.node_feature_space, x.nodes_features),
            edges_features=limited(self.edge_feature_space, x.edges_features),
        )

    @override
    def is_subspaceeq(self, other: Space[Any, Any, Any, Any]) -> bool:
        return (
            isinstance(other, GraphSpace)
            and self.backend is other.backend
            and self.batch_shape == other.batch_shape
            and self.is_edge == other.is_edge
            and _features_within(self.node_feature_space, other.node_feature_space)
            and _features_within(self.edge_feature_space, other.edge_feature_space)
            and other.min_nodes <= self.min_nodes
            and _limit(self.max_nodes) <= _limit(other.max_nodes)
            and (
                not self.is_edge
                or (
                    other.min_edges <= self.min_edges
                    and _limit(self.max_edges) <= _limit(other.max_edges)
                )
            )
        )

    @override
    def data_to(self, data: Any, backend: Any = None, device: Any = None) -> Any:
        return GraphInstance(
            *(
                None if array is None else self._move_array(array, backend, device)
                for array in (
                    data.n_nodes,
                    data.n_edges,
                    data.nodes_features,
                    data.edges_features,
                    data.edges,
                )
            )
        )

    @override
    def get_repr(
        self,
        abbreviate: bool = False,
        include_backend: bool = True,
        include_device: bool = True,
        include_dtype: bool = True,
    ) -> str:
        def features(space: Any) -> str:
            if space is None:
                return "None"
            return str(space.get_repr(abbreviate, False, include_device, include_dtype))

        parts = [f"nodes=[{self.min_nodes}, {self.max_nodes}] {features(self.node_feature_space)}"]
        if self.is_edge:
            edges = features(self.edge_feature_space)
            parts.append(f"edges=[{self.min_edges}, {self.max_edges}] {edges}")
        if self.batch_shape:
            parts.append(f"batch_shape={self.batch_shape}")
        if include_backend and not abbreviate:
            parts.append(f"backend={self.backend!r}")
        return f"{'Graph' if abbreviate else 'GraphSpace'}({', '.join(parts)})"

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GraphSpace)
            and self.is_subspaceeq(other)
            and other.is_subspaceeq(self)
            and self.node_feature_space == other.node_feature_space
            and self.edge_feature_space == other.edge_feature_space
        )

    __hash__ = Space.__hash__


def _limit(most: int | None) -> float:
    return math.inf if most is None else most


def _features_within(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return bool(one.is_subspaceeq(other))


def _padding(counts: Any, length: int) -> Any:
    """Which of `length` positions lie beyond the counts, shape ``(*counts.shape, length)``."""
    return np.arange(length) >= np.asarray(counts)[..., None]
