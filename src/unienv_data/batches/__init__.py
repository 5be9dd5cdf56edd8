"""Views and combinations of batches."""

from __future__ import annotations

from unienv_data.base.views import SubIndexedBatch, SubItemBatch
from unienv_data.batches.backend_compat import ToBackendOrDeviceBatch
from unienv_data.batches.combined_batch import CombinedBatch
from unienv_data.batches.framestack_batch import FrameStackedBatch
from unienv_data.batches.slicestack_batch import SliceStackedBatch
from unienv_data.batches.transformations import TransformedBatch

__all__ = [
    "CombinedBatch",
    "FrameStackedBatch",
    "SliceStackedBatch",
    "SubIndexedBatch",
    "SubItemBatch",
    "ToBackendOrDeviceBatch",
    "TransformedBatch",
]
