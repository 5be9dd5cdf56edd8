"""One space a file."""

from __future__ import annotations

from unienv_interface.space.spaces.batched import BatchedSpace
from unienv_interface.space.spaces.binary import BinarySpace
from unienv_interface.space.spaces.box import BoxSpace
from unienv_interface.space.spaces.dict import DictSpace
from unienv_interface.space.spaces.dynamic_box import DynamicBoxSpace
from unienv_interface.space.spaces.graph import GraphInstance, GraphSpace
from unienv_interface.space.spaces.text import TextSpace
from unienv_interface.space.spaces.tuple import TupleSpace
from unienv_interface.space.spaces.union import UnionSpace

__all__ = [
    "BatchedSpace",
    "BinarySpace",
    "BoxSpace",
    "DictSpace",
    "DynamicBoxSpace",
    "GraphInstance",
    "GraphSpace",
    "TextSpace",
    "TupleSpace",
    "UnionSpace",
]
