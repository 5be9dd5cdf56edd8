"""Spaces as JSON data, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any

import numpy as np

from unienv_interface.backends.serialization import deserialize_dtype, serialize_dtype
from unienv_interface.errors import SpaceDefinitionError
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

__all__ = ["json_to_space", "space_to_json"]


def space_to_json(space: Any) -> dict[str, Any]:
    """A space as JSON data.

    Infinite bounds are Python's infinite floats, which `json` spells ``Infinity``; `json_to_space`
    takes them, and the strings ``"Infinity"`` and ``"-Infinity"``, which are valid JSON.
    """
    data = {"type": type(space).__name__, **_payload(space)}
    if space.metadata:
        data["metadata"] = space.metadata.to_dict()
    return data


@singledispatch
def _payload(space: Any) -> dict[str, Any]:
    unsupported("space_to_json", space)


@_payload.register
def _(space: BoxSpace) -> dict[str, Any]:
    return {
        "shape": list(space.shape),
        "low": space._host_low.tolist(),
        "high": space._host_high.tolist(),
        "dtype": serialize_dtype(space.backend, space.dtype),
    }


@_payload.register
def _(space: DynamicBoxSpace) -> dict[str, Any]:
    return {
        "low": space._host_low.tolist(),
        "high": space._host_high.tolist(),
        "shape_low": list(space.shape_low),
        "shape_high": list(space.shape_high),
        "dtype": serialize_dtype(space.backend, space.dtype),
        "fill_value": space.fill_value,
    }


@_payload.register
def _(space: GraphSpace) -> dict[str, Any]:
    nodes, edges = space.node_feature_space, space.edge_feature_space
    return {
        "min_nodes": space.min_nodes,
        "max_nodes": space.max_nodes,
        "min_edges": space.min_edges,
        "max_edges": space.max_edges,
        "is_edge": space.is_edge,
        "node_feature_space": None if nodes is None else space_to_json(nodes),
        "edge_feature_space": None if edges is None else space_to_json(edges),
        "batch_shape": list(space.batch_shape),
    }


@_payload.register
def _(space: BinarySpace) -> dict[str, Any]:
    return {"shape": list(space.shape), "dtype": serialize_dtype(space.backend, space.dtype)}


@_payload.register
def _(space: TextSpace) -> dict[str, Any]:
    return {
        "min_length": space.min_length,
        "max_length": space.max_length,
        "charset": None if space.charset is None else "".join(space._characters),
    }


@_payload.register
def _(space: DictSpace) -> dict[str, Any]:
    return {"spaces": {key: space_to_json(child) for key, child in space.spaces.items()}}


@_payload.register(TupleSpace)
@_payload.register(UnionSpace)
def _(space: Any) -> dict[str, Any]:
    return {"spaces": [space_to_json(child) for child in space.spaces]}


@_payload.register
def _(space: BatchedSpace) -> dict[str, Any]:
    return {
        "single_space": space_to_json(space.single_space),
        "batch_shape": list(space.batch_shape),
    }


def json_to_space(data: Mapping[str, Any], backend: Any, device: Any = None) -> Any:
    """The space of JSON data.

    Args:
        data: What `space_to_json` gave.
        backend: Array backend of the space.
        device: Device of the space.

    Raises:
        SpaceDefinitionError: An unknown type (ValueError), or a field is missing or no such data.
    """
    if not isinstance(data, Mapping):
        raise SpaceDefinitionError(f"json_to_space: a space is a mapping, got {data!r}")
    kind = data.get("type")
    make = _MAKERS.get(str(kind))
    if make is None:
        raise SpaceDefinitionError(
            f"json_to_space: unknown space type {kind!r}; known are {', '.join(sorted(_MAKERS))}",
            found=kind,
        )
    try:
        space = make(data, backend, device)
        metadata = data.get("metadata")
        return space.with_metadata(metadata) if metadata else space
    except KeyError as error:
        raise SpaceDefinitionError(f"json_to_space: a {kind} lacks the field {error}") from error
    except (AttributeError, TypeError) as error:
        raise SpaceDefinitionError(f"json_to_space: a field of the {kind}: {error}") from error


def _box(data: Mapping[str, Any], backend: Any, device: Any) -> Any:
    dtype, shape = deserialize_dtype(backend, data["dtype"]), data["shape"]
    low, high = _bound(data["low"], shape), _bound(data["high"], shape)
    return BoxSpace(backend, low, high, dtype, device, shape)


_WORDS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


def _bound(value: Any, shape: Any) -> Any:
    """Bounds of arrays of a shape; nested lists tell not all axes where one has length 0."""
    value = _numbers(value)
    nothing = isinstance(value, list) and 0 in (shape or ()) and np.size(value) == 0
    return np.zeros(shape) if nothing else value


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(entry) for entry in value]
    return _WORDS.get(value, value) if isinstance(value, str) else value


def _binary(data: Mapping[str, Any], backend: Any, device: Any) -> Any:
    dtype = deserialize_dtype(backend, data.get("dtype"))
    return BinarySpace(backend, data["shape"], dtype, device)


def _text(data: Mapping[str, Any], backend: Any, device: Any) -> Any:
    return TextSpace(
        backend,
        data["max_length"],
        min_length=data["min_length"],
        charset=data.get("charset"),
        device=device,
    )


def _dict(data: Mapping[str, Any], backend: Any, device: Any) -> Any:
    pairs = [(key, json_to_space(child, backend, device)) for key, child in data["spaces"].items()]
    return DictSpace(backend, pairs, device)


def _tuple(data: Mapping[str, Any], backend: Any, device: Any) -> Any:
    children = [json_to_space(child, backend, device) for child in data["spaces"]]
    return TupleSpace(backend, children, device)


def _union(data: Mapping[str, Any], backend: Any, device: Any) -> Any:
    children = [json_to_space(child, backend, device) for child in data["spaces"]]
    return UnionSpace(backend, children, device)


def _dynamic_box(data: Mapping[str, Any], backend: Any, device: Any) -> Any:
    least, most = data["shape_low"], data["shape_high"]
    fixed = [a if a == b else 1 for a, b in zip(least, most, strict=False)]
    return DynamicBoxSpace(
        backend,
        _bound(data["low"], fixed),
        _bound(data["high"], fixed),
        least,
        most,
        deserialize_dtype(backend, data["dtype"]),
        device,
        data.get("fill_value", 0),
    )


def _graph(data: Mapping[str, Any], backend: Any, device: Any) -> Any:
    nodes, edges = data["node_feature_space"], data["edge_feature_space"]
    return GraphSpace(
        backend,
        None if nodes is None else json_to_space(nodes, backend, device),
        None if edges is None else json_to_space(edges, backend, device),
        data["is_edge"],
        data["min_nodes"],
        data["max_nodes"],
        data["min_edges"],
        data["max_edges"],
        data.get("batch_shape", ()),
        device,
    )


def _batched(data: Mapping[str, Any], backend: Any, device: Any) -> Any:
    return BatchedSpace(json_to_space(data["single_space"], backend, device), data["batch_shape"])


_MAKERS: dict[str, Callable[[Mapping[str, Any], Any, Any], Any]] = {
    "BoxSpace": _box,
    "BinarySpace": _binary,
    "TextSpace": _text,
    "DictSpace": _dict,
    "TupleSpace": _tuple,
    "UnionSpace": _union,
    "BatchedSpace": _batched,
    "DynamicBoxSpace": _dynamic_box,
    "GraphSpace": _graph,
}
