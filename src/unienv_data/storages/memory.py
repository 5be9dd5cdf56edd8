"""Rows as arrays in memory: for tests, and for buffers that need no file."""

from __future__ import annotations

import os
from typing import Any

from typing_extensions import Self, override

from unienv_data.base.indexing import normalize
from unienv_data.base.storage import SpaceStorage, reject_unknown_keywords
from unienv_data.base.views import as_numpy_index
from unienv_data.errors import CapacityError, StorageArgumentError
from unienv_data.storages._fitting import fit_batch, fit_sample
from unienv_interface.space import BatchedSpace, DictSpace, TupleSpace
from unienv_interface.space.space_utils import batch_utils as sbu

__all__ = ["MemoryStorage"]


class MemoryStorage(SpaceStorage[Any, Any, Any, Any, Any]):
    """Batches of any space that `batch_utils` can batch, grown by doubling.

    Nothing is ever written to a file; `dumps` says so.
    """

    def __init__(self, single_instance_space: Any, capacity: int | None) -> None:
        super().__init__(single_instance_space)
        self._capacity = capacity
        self._length = capacity or 0
        self._rows = max(self._length, 16)
        self._space: Any = sbu.batch_space(single_instance_space, self._rows)
        self._data = _zeros(self._space)

    @classmethod
    @override
    def create(
        cls,
        single_instance_space: Any,
        *args: Any,
        capacity: int | None = None,
        cache_path: str | os.PathLike[str] | None = None,
        multiprocessing: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Makes an empty storage; it has no file, so `cache_path` is not used."""
        reject_unknown_keywords(kwargs, "MemoryStorage.create")
        if capacity is not None and capacity < 1:
            raise StorageArgumentError(f"capacity should be at least 1, got {capacity}")
        return cls(single_instance_space, capacity)

    @classmethod
    @override
    def load_from(
        cls, path: str | os.PathLike[str], single_instance_space: Any, **kwargs: Any
    ) -> Self:
        """Refused: there is no file."""
        raise StorageArgumentError("MemoryStorage: rows in memory cannot be loaded")

    @property
    @override
    def capacity(self) -> int | None:
        """Number of rows of a bounded storage."""
        return self._capacity

    @property
    @override
    def cache_filename(self) -> None:
        """None."""
        return None

    @property
    @override
    def is_mutable(self) -> bool:
        """Always."""
        return True

    @property
    @override
    def is_multiprocessing_safe(self) -> bool:
        """Never: each process would have rows of its own."""
        return False

    @override
    def __len__(self) -> int:
        return self._length

    @override
    def get(self, index: Any) -> Any:
        rows = normalize(as_numpy_index(self.backend, index), self._length, "memory")
        found = sbu.get_at(self._space, self._data, self._index(rows))
        return self.backend.map_fn_over_arrays(found, self._copied)

    def _copied(self, array: Any) -> Any:
        copy = self.backend.asarray(array, copy=True)
        return copy if array.shape or self.backend.simplified_name != "numpy" else copy[()]

    def _index(self, rows: Any) -> Any:
        return rows if isinstance(rows, (int, slice)) else self.backend.from_numpy(rows)

    @override
    def set(self, index: Any, value: Any) -> None:
        rows = normalize(as_numpy_index(self.backend, index), self._length, "memory")
        space = self.single_instance_space
        if isinstance(rows, int):
            value = sbu.concatenate(space, [fit_sample(space, value, "set: memory")])
            rows = slice(rows, rows + 1)
        else:
            count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
            value = fit_batch(space, value, count, "set: memory")
            if not count:
                return
        self._data = sbu.set_at(self._space, self._data, self._index(rows), value)

    @override
    def extend_length(self, length: int) -> None:
        self._check_growing("extend_length", length)
        self._length += length
        if self._length > self._rows:
            old, old_space, kept = self._data, self._space, self._rows
            self._rows = max(2 * self._rows, self._length)
            self._space = sbu.batch_space(self.single_instance_space, self._rows)
            rows = sbu.get_at(old_space, old, slice(0, kept))
            self._data = sbu.set_at(self._space, _zeros(self._space), slice(0, kept), rows)

    @override
    def shrink_length(self, length: int) -> None:
        self._check_growing("shrink_length", length)
        if length > self._length:
            raise StorageArgumentError(f"shrink_length: there are {self._length} rows")
        self._length -= length
        rest = slice(self._length, self._rows)
        zeros = _zeros(sbu.batch_space(self.single_instance_space, self._rows - self._length))
        self._data = sbu.set_at(self._space, self._data, rest, zeros)

    def _check_growing(self, operation: str, length: int) -> None:
        if self._capacity is not None:
            raise CapacityError(f"{operation}: the storage has a fixed capacity")
        if length < 1:
            raise StorageArgumentError(f"{operation}: length should be at least 1, got {length}")

    @override
    def dumps(self, path: str | os.PathLike[str]) -> None:
        raise StorageArgumentError(
            "dumps: a MemoryStorage has no file form; copy the rows into a ParquetStorage"
        )

    @override
    def close(self) -> None:
        """Nothing to let go."""


def _zeros(space: Any) -> Any:
    """A batch of zeros and empty texts."""
    if isinstance(space, DictSpace):
        return {key: _zeros(child) for key, child in space.spaces.items()}
    if isinstance(space, TupleSpace):
        return tuple(_zeros(child) for child in space.spaces)
    if isinstance(space, BatchedSpace):
        return space.create_empty()
    return space.backend.zeros(space.shape, dtype=space.dtype, device=space.device)
