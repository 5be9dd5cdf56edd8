from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from unienv_data.base import BufferedSegmentWriter, MappedSegmentWriter, SpaceStorage
from unienv_data.base.storage import FOREIGN_KEYWORDS, reject_unknown_keywords
from unienv_data.errors import CapacityError, SegmentStateError
from unienv_data.storages.memory import MemoryStorage
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BoxSpace
from unienv_interface.testing import load_backend

SPACE: Any = BoxSpace(B, -100, 100, np.int64, shape=(2,))


class Flaky(MemoryStorage):
    """Fails when it is told to."""

    fails = False
    closed = 0

    @override
    def set(self, index: Any, value: Any) -> None:
        if self.fails:
            raise OSError("the disk is gone")
        super().set(index, value)

    @override
    def close(self) -> None:
        type(self).closed += 1
        if self.fails:
            raise OSError("the disk is gone")


def row(number: int) -> Any:
    return np.array([number, -number])


def growing(length: int = 0) -> Any:
    storage: Any = Flaky.create(SPACE)
    if length:
        storage.extend_length(length)
    return storage


def test_a_bare_annotation_is_complete() -> None:
    assert SpaceStorage[Any] is not None
    assert SpaceStorage[Any, Any, Any, Any, Any] is not None


def test_segments_by_default() -> None:
    storage = growing(5)
    with pytest.raises(SegmentStateError):
        storage.append(row(1))
    storage.mark_segment_end()
    storage.abort_segment()
    storage.mark_segment_start(3)
    with pytest.raises(SegmentStateError):
        storage.mark_segment_start(0)
    storage.append(row(1))
    storage.append(row(2))
    assert storage.has_open_segment
    assert storage.pending_segment_length == 0
    assert storage.get_segments() is None
    storage.mark_segment_end()
    assert not storage.has_open_segment
    assert storage.get(...)[:, 0].tolist() == [0, 0, 0, 1, 2]


def test_a_segment_runs_around_the_end_of_a_bounded_storage() -> None:
    storage = MemoryStorage.create(SPACE, capacity=3)
    storage.mark_segment_start(2)
    for number in range(1, 4):
        storage.append(row(number))
    assert storage.get(...)[:, 0].tolist() == [2, 3, 1]


def test_a_failing_append_leaves_the_segment_as_it_was() -> None:
    storage = growing(3)
    storage.mark_segment_start(0)
    storage.append(row(1))
    storage.fails = True
    with pytest.raises(OSError, match="gone"):
        storage.append(row(2))
    storage.fails = False
    assert storage.has_open_segment
    storage.append(row(3))
    assert storage.get(...)[:, 0].tolist() == [1, 3, 0]


def test_clearing() -> None:
    storage = growing(3)
    storage.mark_segment_start(0)
    storage.clear()
    assert len(storage) == 0
    assert not storage.has_open_segment
    storage.clear()
    bounded = MemoryStorage.create(SPACE, capacity=3)
    bounded.clear()
    assert len(bounded) == 3


def test_closing() -> None:
    Flaky.closed = 0
    with growing() as storage:
        assert Flaky.closed == 0
    assert Flaky.closed == 1
    storage.fails = True
    del storage
    gc.collect()
    assert Flaky.closed == 2


def test_keywords() -> None:
    reject_unknown_keywords(dict.fromkeys(FOREIGN_KEYWORDS), "here")
    with pytest.raises(TypeError, match=r"here .*'compresed'"):
        reject_unknown_keywords({"compresed": True, "compressed": True}, "here")


def test_a_segment_writer_keeps_copies() -> None:
    storage = growing(4)
    assert isinstance(storage.open_segment_writer(), BufferedSegmentWriter)
    writer = storage.open_segment_writer()
    reused = row(1)
    writer.append(reused)
    reused[:] = 9
    writer.append(reused)
    assert len(writer) == writer.length == 2
    assert not writer.is_finished
    writer.finish()
    assert writer.is_finished
    with pytest.raises(SegmentStateError):
        writer.append(reused)
    writer.commit(1)
    assert storage.get(...)[:, 0].tolist() == [0, 1, 9, 0]
    with pytest.raises(SegmentStateError):
        writer.commit(1)


def test_a_segment_writer_copies_tensors() -> None:
    torch = pytest.importorskip("torch")
    backend = load_backend("pytorch")
    space: Any = BoxSpace(backend, -100, 100, torch.int64, shape=(2,))
    storage = MemoryStorage.create(space, capacity=2)
    writer = storage.open_segment_writer()
    reused = torch.tensor([1, 2])
    for _ in range(2):
        writer.append(reused)
        reused += 1
    writer.commit(0)
    assert storage.get(...).tolist() == [[1, 2], [2, 3]]


def test_a_segment_writer_commits_around_the_end() -> None:
    storage = MemoryStorage.create(SPACE, capacity=3)
    writer = storage.open_segment_writer()
    for number in (1, 2):
        writer.append(row(number))
    writer.commit(2)
    assert storage.get(...)[:, 0].tolist() == [2, 0, 1]
    longer = storage.open_segment_writer()
    for number in range(4):
        longer.append(row(number))
    with pytest.raises(CapacityError):
        longer.commit(0)


def test_a_failed_commit_can_be_repeated() -> None:
    storage = growing(2)
    writer = storage.open_segment_writer()
    writer.append(row(5))
    with pytest.raises(CapacityError):
        writer.commit(2)
    storage.fails = True
    with pytest.raises(OSError, match="gone"):
        writer.commit(1)
    storage.fails = False
    writer.commit(1)
    assert storage.get(1).tolist() == [5, -5]


def test_an_aborted_writer() -> None:
    storage = growing(2)
    writer = storage.open_segment_writer()
    writer.append(row(5))
    writer.abort()
    assert len(writer) == 0
    with pytest.raises(SegmentStateError):
        writer.commit(0)
    empty = storage.open_segment_writer()
    empty.commit(0)
    assert not storage.get(...).any()


def test_a_mapped_writer() -> None:
    storage = growing(2)
    writer = MappedSegmentWriter(storage, storage.open_segment_writer(), lambda value: value * 2)
    writer.append(row(3))
    assert (len(writer), writer.is_finished) == (1, False)
    writer.finish()
    assert writer.is_finished
    writer.commit(0)
    assert storage.get(0).tolist() == [6, -6]
    other = MappedSegmentWriter(storage, storage.open_segment_writer(), row)
    other.append(1)
    other.abort()
    assert len(other) == 0
