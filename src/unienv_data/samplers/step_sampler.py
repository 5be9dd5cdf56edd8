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
        space, metadata_space = data.single_space, data.single_metadata_space
        if device is not None:
            space = space.to(device=device)
            metadata_space = None if metadata_space is None else metadata_space.to(device=device)
        super().__init__(space, metadata_space, batch_size)
        self.data = data
        self._moves = device is not None and device != data.device
        # Positions are drawn where the data lies.
        self.rng = self._new_rng(seed)

    def _moved(self, data: Any, metadata: Any) -> tuple[Any, dict[str, Any] | None]:
        if not self._moves:
            return data, metadata
        batch, device = self.data, self.device
        if metadata is not None and batch.single_metadata_space is not None:
            metadata = batch.single_metadata_space.data_to(metadata, device=device)
        return batch.single_space.data_to(data, device=device), metadata

    def _moved_flat(self, flat: Any, metadata: Any) -> tuple[Any, dict[str, Any] | None]:
        if not self._moves:
            return flat, metadata
        _, metadata = self._moved(None, metadata) if False else (None, metadata)
        return self.backend.to_device(flat, self.device), metadata

    @override
    def get_at(self, idx: Any) -> Any:
        return self._moved(self.data.get_at(idx), None)[0]

    @override
    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        return self._moved(*self.data.get_at_with_metadata(idx))
