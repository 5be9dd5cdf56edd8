"""What batches that show another one in a different form share."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
from typing_extensions import override

from unienv_data.base.batch import BatchBase, is_single
from unienv_data.base.views import as_numpy_index

__all__ = ["MappedBatch", "parent_index"]


def parent_index(own: Any, parent: Any, idx: Any) -> Any:
    """An index as the batch `parent` takes it, where `own` is the backend callers use.

    Arrays change the backend where the two differ; everything else is passed on.
    """
    backend = parent.backend
    if backend.is_backendarray(idx):
        return idx
    idx = as_numpy_index(own, idx)
    if isinstance(idx, np.ndarray) and idx.ndim:
        return backend.from_numpy(idx, device=parent.device)
    return idx


class MappedBatch(BatchBase[Any, Any, Any, Any, Any], abc.ABC):
    """Another batch whose samples change their form on the way out and in.

    Same length and positions. Closing it leaves the other batch open.

    Attributes:
        batch: The other batch.
    """

    def __init__(
        self,
        batch: BatchBase[Any, Any, Any, Any, Any],
        single_space: Any,
        single_metadata_space: Any,
    ) -> None:
        super().__init__(single_space, single_metadata_space)
        self.batch = batch
        self.is_mutable = batch.is_mutable

    # -- what a subclass says ----------------------------------------------------------------

    @abc.abstractmethod
    def _out(self, data: Any, *, single: bool) -> Any:
        """A sample, or a batch, of the other batch in this one's form."""

    @abc.abstractmethod
    def _in(self, data: Any, *, single: bool) -> Any:
        """A sample, or a batch, of this one in the other batch's form."""

    @abc.abstractmethod
    def _metadata_out(self, metadata: Any, *, single: bool) -> Any:
        """Metadata of the other batch in this one's form."""

    def _check_writable(self, operation: str) -> None:
        if not self.is_mutable:
            self._refuse(operation)

    # -- the contract ------------------------------------------------------------------------

    @override
    def __len__(self) -> int:
        return len(self.batch)

    def _index(self, idx: Any) -> Any:
        return parent_index(self.backend, self.batch, idx)

    @override
    def get_at(self, idx: Any) -> Any:
        return self._out(self.batch.get_at(self._index(idx)), single=is_single(idx))

    @override
    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        data, metadata = self.batch.get_at_with_metadata(self._index(idx))
        single = is_single(idx)
        if metadata is not None:
            metadata = self._metadata_out(metadata, single=single)
        return self._out(data, single=single), metadata

    @override
    def set_at(self, idx: Any, value: Any) -> None:
        self._check_writable("set_at")
        self.batch.set_at(self._index(idx), self._in(value, single=is_single(idx)))

    @override
    def extend(self, value: Any) -> None:
        self._check_writable("extend")
        self.batch.extend(self._in(value, single=False))

    @override
    def append(self, value: Any) -> None:
        self._check_writable("append")
        self.batch.append(self._in(value, single=True))

    @override
    def remove_at(self, idx: Any) -> None:
        self.batch.remove_at(self._index(idx))
