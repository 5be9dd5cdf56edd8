"""A batch on another array backend or device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from unienv_data.base.batch import BatchBase, is_single
from unienv_data.batches._mapped import MappedBatch
from unienv_interface.space.space_utils import batch_utils as sbu

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
        return _space_of(self.batch.single_space, data, single).data_to(data, **self._target)

    @override
    def _metadata_out(self, metadata: Any, *, single: bool) -> Any:
        space = self.batch.single_metadata_space
        if space is None:
            return metadata
        return _space_of(space, metadata, single).data_to(metadata, **self._target)

    @override
    def _in(self, data: Any, *, single: bool) -> Any:
        parent = self.batch
        space = _space_of(self.single_space, data, single)
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


def _space_of(space: Any, data: Any, single: bool) -> Any:
    # The rows of texts are counted by their space.
    return space if single else sbu.batch_space(space, sbu.batch_size_data(data) or 0)
