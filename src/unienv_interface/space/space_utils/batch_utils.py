"""Batches: spaces with a leading axis, and their samples row by row."""

from __future__ import annotations

from unienv_interface.space.space_utils._batch_data import (
    batch_size_data,
    concatenate,
    get_at,
    iterate,
    set_at,
)
from unienv_interface.space.space_utils._batch_shape import (
    reshape_batch_size,
    reshape_batch_size_in_data,
    swap_batch_dims,
    swap_batch_dims_in_data,
)
from unienv_interface.space.space_utils._batch_space import (
    batch_differing_spaces,
    batch_size,
    batch_space,
    unbatch_spaces,
)

__all__ = [
    "batch_differing_spaces",
    "batch_size",
    "batch_size_data",
    "batch_space",
    "concatenate",
    "get_at",
    "iterate",
    "reshape_batch_size",
    "reshape_batch_size_in_data",
    "set_at",
    "swap_batch_dims",
    "swap_batch_dims_in_data",
    "unbatch_spaces",
]
