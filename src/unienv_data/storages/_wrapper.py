"""A storage around another: forwards the whole contract, so that a wrapper says what differs."""

from __future__ import annotations

import os
from typing import Any

from typing_extensions import override

from unienv_data.base.batch import is_single
from unienv_data.base.indexing import normalize
from unienv_data.base.segment import MappedSegmentWriter, SegmentWriter
from unienv_data.base.storage import SpaceStorage
from unienv_data.base.views import as_numpy_index

__all__ = ["WrapperStorage"]


class WrapperStorage(SpaceStorage[Any, Any, Any, Any, Any]):
    """Everything as the inner storage has it, but for the form of the samples.

    A subclass says how single samples and batches change on their way in and out.
    """

    def __init__(self, single_instance_space: Any, inner_storage: Any) -> None:
        super().__init__(single_instance_space)
        self.inner_storage = inner_storage

    def capability(self, name: str) -> bool | None:
        """Wrapped rows have another form: only `flush` is passed on."""
        if name == "flush":
            return getattr(self.inner_storage, "flush", None) is not None
        return False

    # -- what a wrapper says -----------------------------------------------------------------

    def _sample_in(self, value: Any) -> Any:
        return value

    def _batch_in(self, value: Any) -> Any:
        return value

    def _sample_out(self, value: Any) -> Any:
        return value

    def _batch_out(self, value: Any) -> Any:
        return value

    # -- the contract ------------------------------------------------------------------------

    @property
    @override
    def capacity(self) -> int | None:
        """The inner storage's."""
        capacity: int | None = self.inner_storage.capacity
        return capacity

    @property
    @override
    def is_mutable(self) -> bool:
        """The inner storage's."""
        return bool(self.inner_storage.is_mutable)

    @property
    @override
    def is_multiprocessing_safe(self) -> bool:
        """The inner storage's."""
        return bool(self.inner_storage.is_multiprocessing_safe)

    @override
    def __len__(self) -> int:
        return len(self.inner_storage)

    @override
    def get(self, index: Any) -> Any:
        value = self.inner_storage.get(index)
        return self._sample_out(value) if is_single(index) else self._batch_out(value)

    @override
    def set(self, index: Any, value: Any) -> None:
        # The index is checked first: a wrong row is no fault of the value.
        rows = normalize(as_numpy_index(self.backend, index), len(self), type(self).__name__)
        value = self._sample_in(value) if isinstance(rows, int) else self._batch_in(value)
        self.inner_storage.set(index, value)

    @override
    def extend_length(self, length: int) -> None:
        self.inner_storage.extend_length(length)

    @override
    def shrink_length(self, length: int) -> None:
        self.inner_storage.shrink_length(length)

    @override
    def clear(self) -> None:
        self.inner_storage.clear()

    @property
    @override
    def has_open_segment(self) -> bool:
        """The inner storage's."""
        return bool(self.inner_storage.has_open_segment)

    @property
    @override
    def pending_segment_length(self) -> int:
        """The inner storage's."""
        return int(self.inner_storage.pending_segment_length)

    @override
    def get_segments(self) -> list[tuple[int, int]] | None:
        segments: list[tuple[int, int]] | None = self.inner_storage.get_segments()
        return segments

    @override
    def mark_segment_start(self, start_index: int) -> None:
        self.inner_storage.mark_segment_start(start_index)

    @override
    def append(self, value: Any) -> None:
        self.inner_storage.append(self._sample_in(value))

    @override
    def mark_segment_end(self) -> None:
        self.inner_storage.mark_segment_end()

    @override
    def abort_segment(self) -> None:
        self.inner_storage.abort_segment()

    @override
    def open_segment_writer(self) -> SegmentWriter[Any, Any, Any, Any, Any]:
        return MappedSegmentWriter(self, self.inner_storage.open_segment_writer(), self._sample_in)

    def flush(self) -> None:
        """Flushes the inner storage; see `supports_flush`."""
        self.inner_storage.flush()

    @override
    def dumps(self, path: str | os.PathLike[str]) -> None:
        self.inner_storage.dumps(path)

    @override
    def close(self) -> None:
        inner = getattr(self, "inner_storage", None)
        if inner is not None:
            inner.close()
