"""The conformance suite, run against every storage that numpy spaces go into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typing_extensions import override

from unienv_data.storages.flattened import FlattenedStorage
from unienv_data.storages.memory import MemoryStorage
from unienv_data.storages.npz_storage import NPZStorage
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.conformance import SPACES, StorageConformance

ARRAYS = tuple(name for name in SPACES if name not in ("text", "dict", "tree"))


class TestParquetStorage(StorageConformance):
    can_pickle = True

    @override
    def make(self, space: Any, capacity: int | None, path: Path) -> Any:
        return ParquetStorage.create(space, capacity=capacity, cache_path=path, piece_size=4)

    @override
    def reopen(self, space: Any, capacity: int | None, path: Path, *, read_only: bool) -> Any:
        return ParquetStorage.load_from(path, space, capacity=capacity, read_only=read_only)


class TestMemoryStorage(StorageConformance):
    can_pickle = True
    storable = tuple(SPACES)
    can_reopen = False

    @override
    def make(self, space: Any, capacity: int | None, path: Path) -> Any:
        return MemoryStorage.create(space, capacity=capacity)


class TestNPZStorage(StorageConformance):
    can_pickle = True
    storable = ARRAYS

    @override
    def make(self, space: Any, capacity: int | None, path: Path) -> Any:
        return NPZStorage.create(space, capacity=capacity, cache_path=path)

    @override
    def reopen(self, space: Any, capacity: int | None, path: Path, *, read_only: bool) -> Any:
        return NPZStorage.load_from(path, space, capacity=capacity, read_only=read_only)


class TestFlattenedMemory(StorageConformance):
    can_pickle = True
    storable = (*ARRAYS, "tree")
    can_reopen = False
    keeps_every_bit = False

    @override
    def make(self, space: Any, capacity: int | None, path: Path) -> Any:
        return FlattenedStorage.create(space, inner_storage_cls=MemoryStorage, capacity=capacity)


class TestFlattenedParquet(StorageConformance):
    can_pickle = True
    storable = (*ARRAYS, "tree")
    keeps_every_bit = False

    @override
    def make(self, space: Any, capacity: int | None, path: Path) -> Any:
        return FlattenedStorage.create(
            space, ParquetStorage, capacity=capacity, cache_path=path, piece_size=4
        )

    @override
    def reopen(self, space: Any, capacity: int | None, path: Path, *, read_only: bool) -> Any:
        return FlattenedStorage.load_from(path, space, capacity=capacity, read_only=read_only)
