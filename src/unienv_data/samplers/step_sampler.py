"""Single steps, drawn uniformly."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from unienv_data.base.batch import BatchBase
from unienv_data.base.sampler import (
    BatchSampler,
    SamplerArrayType,
    SamplerBatchT,
    SamplerDeviceType,
    SamplerDtypeType,
    SamplerRNGType,
)
from unienv_data.batches.backend_compat import ToBackendOrDeviceBatch

__all__ = ["StepSampler"]


class StepSampler(
    BatchSampler[
        SamplerBatchT, SamplerArrayType, SamplerDeviceType, SamplerDtypeType, SamplerRNGType
    ]
):
    """Batches of steps drawn uniformly with replacement, and shuffled epochs."""

    def __init__(
        self,
        data: BatchBase[Any, Any, Any, Any, Any],
        batch_size: int,
        seed: int | None = None,
        device: Any = None,
    ) -> None:
        """Chooses what to draw from.

        Args:
            data: The samples.
            batch_size: Samples a batch.
            seed: Seed of the random numbers, None for one of the system's.
            device: Device that batches are moved to, None to leave them.
        """
        moves = device is not None and device != data.device
        source = ToBackendOrDeviceBatch(data, device=device) if moves else data
        super().__init__(source.single_space, source.single_metadata_space, batch_size)
        self.data = data
        self._source: BatchBase[Any, Any, Any, Any, Any] = source
        # Positions are drawn where the data lies.
        self.data_rng = self._new_rng(seed)

    @override
    def get_at(self, idx: Any) -> Any:
        return self._source.get_at(idx)

    @override
    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        return self._source.get_at_with_metadata(idx)

    @override
    def get_flattened_at(self, idx: Any) -> Any:
        return self._source.get_flattened_at(idx)

    @override
    def get_flattened_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        return self._source.get_flattened_at_with_metadata(idx)
