"""Samples for robot learning: storages, buffers, batches and samplers."""

from __future__ import annotations

from unienv_data.base import (
    BatchBase,
    BatchSampler,
    BatchT,
    BufferedSegmentWriter,
    IndexableType,
    MappedSegmentWriter,
    SamplerArrayType,
    SamplerBatchT,
    SamplerDeviceType,
    SamplerDtypeType,
    SamplerRNGType,
    SegmentWriter,
    SpaceStorage,
)
from unienv_data.batches import SubIndexedBatch, SubItemBatch
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.samplers import StepSampler
from unienv_interface._clash import check as _check_for_clash

__all__ = [
    "BatchBase",
    "BatchSampler",
    "BatchT",
    "BufferedSegmentWriter",
    "IndexableType",
    "MappedSegmentWriter",
    "ReplayBuffer",
    "SamplerArrayType",
    "SamplerBatchT",
    "SamplerDeviceType",
    "SamplerDtypeType",
    "SamplerRNGType",
    "SegmentWriter",
    "SpaceStorage",
    "StepSampler",
    "SubIndexedBatch",
    "SubItemBatch",
]

_check_for_clash()
