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
from unienv_data.tools.findings import Action, Finding, RepairReport, Report
from unienv_data.tools.repair import repair
from unienv_data.tools.verify import verify
from unienv_interface._clash import check as _check_for_clash

__all__ = [
    "Action",
    "BatchBase",
    "BatchSampler",
    "BatchT",
    "BufferedSegmentWriter",
    "CombinedBatch",
    "Finding",
    "FrameStackedBatch",
    "IndexableType",
    "MappedSegmentWriter",
    "MultiprocessingSampler",
    "RepairReport",
    "ReplayBuffer",
    "Report",
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
    "repair",
    "verify",
]

_check_for_clash()
