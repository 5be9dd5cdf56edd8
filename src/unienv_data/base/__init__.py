"""The contracts that everything else fulfils: storages, segments, batches, samplers."""

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
from unienv_data.base.segment import BufferedSegmentWriter, MappedSegmentWriter, SegmentWriter
from unienv_data.base.storage import SpaceStorage

__all__ = [
    "BatchBase",
    "BatchSampler",
    "BatchT",
    "BufferedSegmentWriter",
    "IndexableType",
    "MappedSegmentWriter",
    "SamplerArrayType",
    "SamplerBatchT",
    "SamplerDeviceType",
    "SamplerDtypeType",
    "SamplerRNGType",
    "SegmentWriter",
    "SpaceStorage",
]
