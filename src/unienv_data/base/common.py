"""Batches and samplers under the module name that the original library gives them."""

from __future__ import annotations

from unienv_data.base.batch import BatchBase, BatchT, IndexableType
from unienv_data.base.sampler import (
    BatchSampler,
    SamplerArrayType,
    SamplerBatchT,
    SamplerDeviceType,
    SamplerDtypeType,
    SamplerRNGType,
)

__all__ = [
    "BatchBase",
    "BatchSampler",
    "BatchT",
    "IndexableType",
    "SamplerArrayType",
    "SamplerBatchT",
    "SamplerDeviceType",
    "SamplerDtypeType",
    "SamplerRNGType",
]
