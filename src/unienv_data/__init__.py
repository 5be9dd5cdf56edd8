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
from unienv_data.batches import (
    CombinedBatch,
    FrameStackedBatch,
    SliceStackedBatch,
    SubIndexedBatch,
    SubItemBatch,
    ToBackendOrDeviceBatch,
    TransformedBatch,
)
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.samplers import MultiprocessingSampler, StepSampler
from unienv_interface._clash import check as _check_for_clash

__all__ = [
    "BatchBase",
    "BatchSampler",
    "BatchT",
    "BufferedSegmentWriter",
    "CombinedBatch",
    "FrameStackedBatch",
    "IndexableType",
    "MappedSegmentWriter",
    "MultiprocessingSampler",
    "ReplayBuffer",
    "SamplerArrayType",
    "SamplerBatchT",
    "SamplerDeviceType",
    "SamplerDtypeType",
    "SamplerRNGType",
    "SegmentWriter",
    "SliceStackedBatch",
    "SpaceStorage",
    "StepSampler",
    "SubIndexedBatch",
    "SubItemBatch",
    "ToBackendOrDeviceBatch",
    "TransformedBatch",
]

_check_for_clash()
