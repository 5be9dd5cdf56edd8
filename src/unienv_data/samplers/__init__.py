"""Ways to draw batches."""

from __future__ import annotations

from unienv_data.samplers.multiprocessing_sampler import MultiprocessingSampler
from unienv_data.samplers.step_sampler import StepSampler

__all__ = ["MultiprocessingSampler", "StepSampler"]
