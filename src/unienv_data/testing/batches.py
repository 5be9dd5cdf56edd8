"""The obvious batch: every sample in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from unienv_data.base.batch import BatchBase
from unienv_data.base.indexing import normalize
from unienv_data.base.views import as_numpy_index
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace
from unienv_interface.space.space_utils import batch_utils as sbu

__all__ = ["ArrayBatch", "numbered"]


class ArrayBatch(BatchBase[Any, Any, Any, Any, Any]):
    """Arrays, and the log of what was asked of it.

    Attributes:
        data: The samples, a batch of `single_space`.
        metadata: Their metadata, or None.
        log: Method names, in the order of the calls.
    """

    def __init__(
        self, single_space: Any, data: Any, metadata_space: Any = None, metadata: Any = None
    ) -> None:
        super().__init__(single_space, metadata_space)
        self.data = data
        self.metadata = metadata
        self.log: list[str] = []

    @override
    def __len__(self) -> int:
        return sbu.batch_size_data(self.data) or 0

    def _index(self, idx: Any) -> Any:
        rows = normalize(as_numpy_index(self.backend, idx), len(self), "ArrayBatch")
        return self.backend.from_numpy(rows) if isinstance(rows, np.ndarray) else rows

    @override
    def get_at(self, idx: Any) -> Any:
        self.log.append("get_at")
        found = sbu.get_at(self._batched_space, self.data, self._index(idx))
        return self.backend.map_fn_over_arrays(found, self._copied)

    def _copied(self, array: Any) -> Any:
        return self.backend.asarray(array, copy=True)

    @override
    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        data = self.get_at(idx)
        self.log[-1] = "get_at_with_metadata"
        if self.metadata is None:
            return data, None
        return data, sbu.get_at(self._batched_metadata_space, self.metadata, self._index(idx))

    @override
    def set_at(self, idx: Any, value: Any) -> None:
        self.log.append("set_at")
        self.data = sbu.set_at(self._batched_space, self.data, self._index(idx), value)

    @override
    def extend(self, value: Any) -> None:
        self.log.append("extend")
        rows = [*sbu.iterate(self._batched_space, self.data)]
        rows += sbu.iterate(self._batched_space, value)
        self.data = sbu.concatenate(self.single_space, rows)

    @override
    def remove_at(self, idx: Any) -> None:
        self.log.append("remove_at")
        kept = np.delete(np.arange(len(self)), as_numpy_index(self.backend, idx))
        self.data = sbu.get_at(self._batched_space, self.data, self.backend.from_numpy(kept))

    @override
    def close(self) -> None:
        self.log.append("close")


def numbered(
    start: int,
    count: int,
    *,
    ends: tuple[int, ...] = (),
    has_metadata: bool = True,
    backend: Any = NumpyComputeBackend,
) -> ArrayBatch:
    """Samples that know their number, which counts from `start`.

    Entries are ``x``, the number and its negative; ``end``, true for the positions in `ends`.
    Metadata are ``id``, the number, and ``end`` again.
    """
    numbers = np.arange(start, start + count)
    flags = np.isin(np.arange(count), ends)
    space = DictSpace(
        backend,
        {
            "x": BoxSpace(backend, -1e6, 1e6, backend.float32, shape=(2,)),
            "end": BinarySpace(backend, ()),
        },
    )
    pairs = np.stack([numbers, -numbers], axis=-1).astype(np.float32)
    data = {"end": backend.from_numpy(flags), "x": backend.from_numpy(pairs)}
    if not has_metadata:
        return ArrayBatch(space, data)
    metadata_space = DictSpace(
        backend,
        {
            "id": BoxSpace(backend, 0, 10**6, backend.int64, shape=()),
            "end": BinarySpace(backend, ()),
        },
    )
    metadata = {"id": backend.from_numpy(numbers), "end": backend.from_numpy(flags)}
    return ArrayBatch(space, data, metadata_space, metadata)
