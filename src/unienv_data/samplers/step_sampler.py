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
        space = data.single_space if device is None else data.single_space.to(device=device)
        metadata_space = data.single_metadata_space
        super().__init__(space, metadata_space, batch_size)
        self.data = data
        self._moves = device is not None and device != data.device
        # Positions are drawn where the data lies.
        self.rng = data.backend.random.random_number_generator(seed, device=data.device)

    @override
    def manual_seed(self, seed: int) -> None:
        data = self.data
        self.rng = data.backend.random.random_number_generator(seed, device=data.device)

    @override
    def _read(self, index: Any) -> tuple[Any, dict[str, Any] | None]:
        data, metadata = self.data.get_at_with_metadata(index)
        if self._moves:
            data = self.data.single_space.data_to(data, device=self.device)
        return data, metadata
