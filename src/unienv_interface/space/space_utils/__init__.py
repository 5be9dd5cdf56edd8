"""Operations over all kinds of spaces, one `singledispatch` family a module."""

from __future__ import annotations

from unienv_interface.space.space_utils import (
    batch_utils,
    construct_utils,
    flatten_utils,
    gym_utils,
    metadata_utils,
    serialization_utils,
)

__all__ = [
    "batch_utils",
    "construct_utils",
    "flatten_utils",
    "gym_utils",
    "metadata_utils",
    "serialization_utils",
]
