"""Metadata over whole trees of spaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unienv_interface.space.metadata import SpaceMetadata
from unienv_interface.space.spaces import BatchedSpace, DictSpace, TupleSpace

__all__ = ["iterate_metadata", "strip_metadata"]


def iterate_metadata(space: Any, separator: str = "/") -> Iterator[tuple[str, SpaceMetadata]]:
    """Joined key and metadata of every space in a tree that has some; the root's key is ""."""
    yield from _iterate(space, "", separator)


def _iterate(space: Any, path: str, separator: str) -> Iterator[tuple[str, SpaceMetadata]]:
    if space.metadata:
        yield path, space.metadata
    children: Any = ()
    if isinstance(space, DictSpace):
        children = space.spaces.items()
    elif isinstance(space, TupleSpace):
        children = ((str(number), child) for number, child in enumerate(space.spaces))
    for key, child in children:
        yield from _iterate(child, f"{path}{separator}{key}" if path else key, separator)


def strip_metadata(space: Any) -> Any:
    """The same tree of spaces without metadata."""
    if isinstance(space, DictSpace):
        pairs = [(key, strip_metadata(child)) for key, child in space.spaces.items()]
        return DictSpace(space.backend, pairs, space.device)
    if isinstance(space, TupleSpace):
        return type(space)(
            space.backend, [strip_metadata(child) for child in space.spaces], space.device
        )
    if isinstance(space, BatchedSpace):
        return BatchedSpace(strip_metadata(space.single_space), space.batch_shape)
    return space.with_metadata(replace=True)
