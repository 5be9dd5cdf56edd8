"""Segments collected aside: filled sample by sample, stored by one `commit`."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Generic

import numpy as np
from typing_extensions import override

from unienv_data.base.storage import BatchT, SpaceStorage
from unienv_data.errors import CapacityError, SegmentStateError
from unienv_interface.backends import BArrayType, BDeviceType, BDtypeType, BRNGType
from unienv_interface.space.space_utils import batch_utils as sbu

__all__ = ["BufferedSegmentWriter", "MappedSegmentWriter", "SegmentWriter"]


class SegmentWriter(abc.ABC, Generic[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """A segment on its way into a storage.

    Attributes:
        storage: Where it goes.
    """

    def __init__(
        self, storage: SpaceStorage[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]
    ) -> None:
        self.storage = storage

    @abc.abstractmethod
    def __len__(self) -> int:
        """Samples so far."""

    @property
    def length(self) -> int:
        """Samples so far."""
        return len(self)

    @property
    @abc.abstractmethod
    def is_finished(self) -> bool:
        """Whether it takes no further samples."""

    @abc.abstractmethod
    def append(self, value: Any) -> None:
        """Adds a sample.

        Raises:
            SegmentStateError: The writer is finished.
        """

    @abc.abstractmethod
    def finish(self) -> None:
        """Takes no further samples."""

    @abc.abstractmethod
    def commit(self, start_index: int) -> None:
        """Stores the rows ``[start, start + len)``, modulo the capacity.

        A growing storage must be long enough already.
        """

    @abc.abstractmethod
    def abort(self) -> None:
        """Forgets the samples."""


class BufferedSegmentWriter(SegmentWriter[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """Keeps copies of the samples in memory and writes them with one `set`."""

    def __init__(
        self, storage: SpaceStorage[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]
    ) -> None:
        super().__init__(storage)
        self._samples: list[Any] = []
        self._is_finished = False
        self._is_over = False

    @override
    def __len__(self) -> int:
        return len(self._samples)

    @property
    @override
    def is_finished(self) -> bool:
        return self._is_finished

    @override
    def append(self, value: Any) -> None:
        if self._is_finished:
            raise SegmentStateError("append: this segment writer is finished; open another one")
        # Callers reuse their arrays. `copy.copy` of a tensor would share its memory.
        backend = self.storage.backend
        self._samples.append(
            backend.map_fn_over_arrays(value, lambda array: backend.asarray(array, copy=True))
        )

    @override
    def finish(self) -> None:
        self._is_finished = True

    @override
    def commit(self, start_index: int) -> None:
        if self._is_over:
            raise SegmentStateError("commit: this segment writer was committed or aborted")
        storage, count = self.storage, len(self._samples)
        capacity = storage.capacity
        limit = len(storage) if capacity is None else capacity
        end = start_index + count if capacity is None else count
        if end > limit:
            raise CapacityError(
                f"commit: {count} rows from row {start_index} on do not fit {limit} rows",
                expected=limit,
                found=end,
            )
        if count:
            batch = sbu.concatenate(storage.single_instance_space, self._samples)
            if capacity is None or start_index + count <= capacity:
                storage.set(slice(start_index, start_index + count), batch)
            else:
                rows = (start_index + np.arange(count)) % capacity
                storage.set(storage.backend.from_numpy(rows), batch)
        self._end()

    @override
    def abort(self) -> None:
        self._end()

    def _end(self) -> None:
        self._is_finished = self._is_over = True
        self._samples.clear()


class MappedSegmentWriter(SegmentWriter[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """Passes each sample through a function into another writer."""

    def __init__(
        self,
        storage: SpaceStorage[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType],
        inner_writer: SegmentWriter[Any, Any, Any, Any, Any],
        transform: Callable[[Any], Any],
    ) -> None:
        super().__init__(storage)
        self.inner_writer = inner_writer
        self._transform = transform

    @override
    def __len__(self) -> int:
        return len(self.inner_writer)

    @property
    @override
    def is_finished(self) -> bool:
        return self.inner_writer.is_finished

    @override
    def append(self, value: Any) -> None:
        self.inner_writer.append(self._transform(value))

    @override
    def finish(self) -> None:
        self.inner_writer.finish()

    @override
    def commit(self, start_index: int) -> None:
        self.inner_writer.commit(start_index)

    @override
    def abort(self) -> None:
        self.inner_writer.abort()
