"""A batch on another array backend or device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from unienv_data.base.batch import BatchBase, is_single
from unienv_data.batches._mapped import MappedBatch

__all__ = ["ToBackendOrDeviceBatch"]


class ToBackendOrDeviceBatch(MappedBatch):
    """Samples of another batch, moved when they are read; values written are moved back."""

    def __init__(
        self,
        batch: BatchBase[Any, Any, Any, Any, Any],
        backend: Any = None,
        device: Any = None,
    ) -> None:
        """Chooses where samples go.

        Args:
            batch: The samples.
            backend: Array backend, None to keep it.
            device: Device, None for the backend's own choice.
        """
        metadata_space: Any = batch.single_metadata_space
        if metadata_space is not None:
            metadata_space = metadata_space.to(backend, device)
        super().__init__(batch, batch.single_space.to(backend, device), metadata_space)
        self._target = {"backend": backend, "device": device}

    @override
    def _out(self, data: Any, *, single: bool) -> Any:
        parent = self.batch
        space = parent.single_space if single else parent._batched_space
        return space.data_to(data, **self._target)

    @override
    def _metadata_out(self, metadata: Any, *, single: bool) -> Any:
        parent = self.batch
        space = parent.single_metadata_space if single else parent._batched_metadata_space
        return metadata if space is None else space.data_to(metadata, **self._target)

    @override
    def _in(self, data: Any, *, single: bool) -> Any:
        parent = self.batch
        space = self.single_space if single else self._batched_space
        return space.data_to(data, backend=parent.backend, device=parent.device)

    def _flat_out(self, flat: Any) -> Any:
        backend = self.backend
        flat = backend.from_other_backend(self.batch.backend, flat)
        return flat if self._target["device"] is None else backend.to_device(flat, self.device)

    @override
    def get_flattened_at(self, idx: Any) -> Any:
        return self._flat_out(self.batch.get_flattened_at(self._index(idx)))

    @override
    def get_flattened_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        flat, metadata = self.batch.get_flattened_at_with_metadata(self._index(idx))
        if metadata is not None:
            metadata = self._metadata_out(metadata, single=is_single(idx))
        return self._flat_out(flat), metadata

    @override
    def get_column(self, nested_keys: str | Sequence[str]) -> BatchBase[Any, Any, Any, Any, Any]:
        """A view of one entry, which reads no other where the batch can."""
        return ToBackendOrDeviceBatch(self.batch.get_column(nested_keys), **self._target)
