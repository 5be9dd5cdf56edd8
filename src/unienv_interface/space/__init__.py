"""Spaces: which samples belong, and operations over all kinds of them in `space_utils`."""

from __future__ import annotations

from unienv_interface.space import space_utils
from unienv_interface.space.metadata import SpaceMetadata
from unienv_interface.space.space import Space
from unienv_interface.space.space_utils import batch_utils, flatten_utils, metadata_utils
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

__all__ = [
    "BatchedSpace",
    "BinarySpace",
    "BoxSpace",
    "DictSpace",
    "DynamicBoxSpace",
    "GraphInstance",
    "GraphSpace",
    "Space",
    "SpaceMetadata",
    "TextSpace",
    "TupleSpace",
    "UnionSpace",
    "batch_utils",
    "flatten_utils",
    "metadata_utils",
    "space_utils",
]
