"""Storages to test the buffer alone: plain arrays, and arrays with a ledger that can be killed.

They live in `DISKS`, by path, so that a buffer can be loaded again after its objects are gone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import Self, override

from unienv_data.base.indexing import normalize
from unienv_data.base.storage import SpaceStorage
from unienv_data.errors import SampleError
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.space import BoxSpace, DictSpace

SPACE: Any = DictSpace(
    NumpyComputeBackend,
    {
        "a": BoxSpace(NumpyComputeBackend, -1e9, 1e9, np.float64, shape=(2,)),
        "b": BoxSpace(NumpyComputeBackend, -(2**40), 2**40, np.int64, shape=()),
    },
)


def sample(number: int) -> dict[str, Any]:
    return {"a": np.array([number, -number], dtype=np.float64), "b": np.int64(number)}


def batch(numbers: Sequence[int]) -> dict[str, Any]:
    rows = np.array(numbers, dtype=np.int64)
    return {"a": np.stack([rows, -rows], axis=1).astype(np.float64), "b": rows}


def numbers(got: Any) -> list[int]:
    """The numbers that samples were made of; fails for a torn row."""
    rows = np.atleast_1d(got["b"])
    np.testing.assert_array_equal(got["a"].reshape(-1, 2)[:, 0], rows)
    np.testing.assert_array_equal(got["a"].reshape(-1, 2)[:, 1], -rows)
    return [int(row) for row in rows]


class Killed(BaseException):
    """The process dies here."""


class Disk:
    """What survives: rows, words and segments. Every store ticks; `kill_at` stops the world."""

    def __init__(self, capacity: int | None) -> None:
        rows = 4096 if capacity is None else capacity
        self.capacity = capacity
        self.a = np.zeros((rows, 2))
        self.b = np.zeros(rows, dtype=np.int64)
        self.length = capacity or 0
        self.words = {"head": 0, "tail": 0, "active": -1, "maintained": 0, "bound": 0, "known": 0}
        self.segments: list[tuple[int, int]] = []
        self.ticks = 0
        self.writers = 0
        self.kill_at: int | None = None

    def tick(self) -> None:
        if self.kill_at is not None and self.ticks >= self.kill_at:
            raise Killed
        self.ticks += 1

    def store(self, word: str, value: int) -> None:
        self.tick()
        self.words[word] = value

    def recover(self) -> None:
        """What an opener does after a kill."""
        words = self.words
        self.kill_at = None
        words["active"] = -1
        words["tail"] = min(words["tail"], words["head"])
        self.segments = [s for s in self.segments if s[0] < words["head"]]


DISKS: dict[str, Disk] = {}


class PlainStorage(SpaceStorage[Any, Any, Any, Any, Any]):
    """Arrays without any capability."""

    single_file_ext = None
    pending_segment_length = 0
    has_rows_aside = False

    def __init__(self, space: Any, disk: Disk, *, read_only: bool = False) -> None:
        super().__init__(space)
        self.disk = disk
        self.read_only = read_only
        self.fails = False
        if not read_only:
            disk.writers += 1
        self.number = disk.writers

    @classmethod
    @override
    def create(
        cls, single_instance_space: Any, *args: Any, capacity: int | None = None, **kwargs: Any
    ) -> Self:
        disk = Disk(capacity)
        DISKS[os.path.realpath(kwargs["cache_path"])] = disk
        return cls(single_instance_space, disk)

    @classmethod
    @override
    def load_from(
        cls,
        path: str | os.PathLike[str],
        single_instance_space: Any,
        *,
        capacity: int | None = None,
        read_only: bool = True,
        multiprocessing: bool = False,
        **kwargs: Any,
    ) -> Self:
        disk = DISKS[os.path.realpath(path)]
        assert capacity == disk.capacity
        return cls(single_instance_space, disk, read_only=read_only)

    @property
    @override
    def capacity(self) -> int | None:
        return self.disk.capacity

    @property
    @override
    def cache_filename(self) -> str | None:
        return None

    @property
    @override
    def is_mutable(self) -> bool:
        return not self.read_only

    @property
    @override
    def is_multiprocessing_safe(self) -> bool:
        return False

    @override
    def __len__(self) -> int:
        return self.disk.length

    @override
    def get(self, index: Any) -> Any:
        rows = normalize(index, len(self))
        return {"a": self.disk.a[rows].copy(), "b": self.disk.b[rows].copy()}

    @override
    def set(self, index: Any, value: Any) -> None:
        self.put(normalize(index, len(self)), value)

    def put(self, rows: Any, value: Any) -> None:
        count = np.arange(len(self.disk.b))[rows].shape
        if self.fails or np.shape(value["a"]) != (*count, 2) or np.shape(value["b"]) != count:
            raise SampleError("this does not fit")
        self.disk.a[rows] = value["a"]
        self.disk.b[rows] = value["b"]

    @override
    def extend_length(self, length: int) -> None:
        self.disk.length += length

    @override
    def shrink_length(self, length: int) -> None:
        self.disk.length -= length

    @override
    def dumps(self, path: str | os.PathLike[str]) -> None:
        copy = Disk(self.capacity)
        copy.a, copy.b, copy.length = self.disk.a.copy(), self.disk.b.copy(), self.disk.length
        copy.words = {**self.disk.words, "known": 0, "active": -1}
        DISKS.setdefault(os.path.realpath(path), copy)
        if DISKS[os.path.realpath(path)] is not self.disk:
            DISKS[os.path.realpath(path)] = copy

    @override
    def close(self) -> None:
        if not self.read_only and self.number == self.disk.writers:  # else it is long dead
            self.disk.words["known"] = 0


class FakeLedger:
    generation = 0

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    @property
    def head(self) -> int:
        return self.disk.words["head"]

    @head.setter
    def head(self, value: int) -> None:
        assert self.disk.capacity is not None, "a growing storage moves its head itself"
        self.disk.store("head", value)

    @property
    def tail(self) -> int:
        return self.disk.words["tail"]

    @tail.setter
    def tail(self, value: int) -> None:
        self.disk.store("tail", value)

    @property
    def active_start(self) -> int:
        return self.disk.words["active"]

    @active_start.setter
    def active_start(self, value: int) -> None:
        self.disk.store("active", value)

    @property
    def maintained(self) -> bool:
        return bool(self.disk.words["maintained"])

    @property
    def is_bound(self) -> bool:
        return bool(self.disk.words["bound"])

    @property
    def knows_segments(self) -> bool:
        return bool(self.disk.words["known"])

    def segments(self) -> list[tuple[int, int]]:
        return list(self.disk.segments)

    def add_segment(self, start: int, end: int) -> None:
        self.disk.tick()
        self.disk.segments.append((start, end))

    def forget_segments(self, before: int) -> None:
        self.disk.tick()
        self.disk.segments = [s for s in self.disk.segments if s[1] > before]

    def reset(
        self, head: int, tail: int, segments: Sequence[tuple[int, int]], maintained: bool
    ) -> None:
        disk, growing = self.disk, self.disk.capacity is None
        if not growing and (head, tail) != (self.head, self.tail):
            disk.store("tail", max(self.tail, self.head))
        disk.store("active", -1)
        disk.tick()
        disk.segments = list(segments)
        disk.store("maintained", int(maintained))
        if not growing:
            disk.store("head", head)
        disk.store("tail", tail)
        disk.words["bound"] = disk.words["known"] = 1


class LedgerStorage(PlainStorage):
    """Arrays with a ledger, as `SupportsLedger` describes it."""

    def __init__(self, space: Any, disk: Disk, *, read_only: bool = False) -> None:
        super().__init__(space, disk, read_only=read_only)
        self.ledger = FakeLedger(disk)

    def append_row(self, position: int, value: Any) -> None:
        disk = self.disk
        if self.fails or np.shape(value["a"]) != (2,) or np.shape(value["b"]) != ():
            raise SampleError("this does not fit")
        if disk.capacity is None:
            assert position == disk.words["head"]
        for column, key in ((disk.a, "a"), (disk.b, "b")):
            disk.tick()
            column[position] = value[key]
        if disk.capacity is None:
            disk.store("head", position + 1)
            disk.length = max(disk.length, position + 1)

    def write_rows(self, positions: Any, value: Any, *, head: int, tail: int) -> None:
        disk = self.disk
        disk.tick()
        self.put(positions, value)
        if disk.capacity is None:
            assert tail == 0
            disk.length = max(disk.length, head)
        disk.words["head"], disk.words["tail"] = head, tail
        disk.tick()

    @override
    def set(self, index: Any, value: Any) -> None:
        rows = normalize(index, len(self))
        super().set(rows, value)
        if self.capacity is None:
            last = rows.stop if isinstance(rows, slice) else int(np.max(rows, initial=-1)) + 1
            self.disk.store("head", max(self.disk.words["head"], last))

    @override
    def shrink_length(self, length: int) -> None:
        self.disk.tick()
        self.disk.length -= length
        self.disk.words["head"] = min(self.disk.words["head"], self.disk.length)

    def flush(self) -> None:
        pass


def read_into(buffer: Any, queue: Any) -> None:
    """What a child process reads; here, since children import modules by name."""
    queue.put((numbers(buffer.get_at(...)), buffer.get_segments()))
