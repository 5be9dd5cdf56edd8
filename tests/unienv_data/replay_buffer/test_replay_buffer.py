from __future__ import annotations

import copy
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay_fakes import (
    DISKS,
    SPACE,
    LedgerStorage,
    PlainStorage,
    batch,
    numbers,
    sample,
)
from typing_extensions import override

from unienv_data.errors import (
    CapacityError,
    ManifestError,
    MissingStorageError,
    ReadOnlyError,
    RowIndexError,
    SampleError,
    SchemaMismatchError,
    SegmentStateError,
    StorageArgumentError,
    StorageClosedError,
    StorageExistsError,
)
from unienv_data.replay_buffer import ReplayBuffer, index_with_offset
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.space import DictSpace

KINDS: list[Any] = [PlainStorage, LedgerStorage]


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in KINDS}
    monkeypatch.setattr("unienv_data.replay_buffer.replay_buffer.resolve_storage", classes.get)


@pytest.fixture(params=KINDS, ids=["plain", "ledger"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def make(kind: Any, path: Path, capacity: int | None = None, **kwargs: Any) -> Any:
    kwargs.setdefault("maintain_segment_metadata", True)
    return ReplayBuffer.create(kind, SPACE, cache_path=path / "rb", capacity=capacity, **kwargs)


def load(path: Path, **kwargs: Any) -> Any:
    return ReplayBuffer.load_from(path / "rb", backend=NumpyComputeBackend, **kwargs)


def metadata(path: Path) -> Any:
    return json.loads((path / "rb" / "metadata.json").read_text())


# -- documented examples ----------------------------------------------------------------------


def test_segments_under_wrap(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 4)
    buffer.extend(batch([0, 1, 2]))
    buffer.extend(batch([3, 4, 5]))
    assert buffer.get_segments() == [(0, 1), (1, 4)]
    assert (buffer.count, buffer.offset) == (4, 2)
    buffer.append(sample(6))
    assert buffer.get_segments() == [(0, 3)]
    with pytest.raises(RuntimeError, match="mark_segment_end"):
        buffer.dumps(tmp_path / "rb")
    buffer.mark_segment_end()
    assert buffer.get_segments() == [(0, 3), (3, 4)]
    buffer.dumps(tmp_path / "rb")
    data = metadata(tmp_path)
    assert data["physical_segments"] == [[3, 1], [2, 2]]
    assert (data["count"], data["offset"], data["capacity"]) == (4, 3, 4)
    assert numbers(buffer.get_at(...)) == [3, 4, 5, 6]


def test_batch_larger_than_the_capacity(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 4)
    buffer.extend(batch([9]))
    buffer.extend(batch([0, 1, 2, 3, 4]))
    assert buffer.get_segments() == [(0, 4)]
    assert (buffer.count, buffer.offset) == (4, 0)
    assert numbers(buffer.get_at(...)) == [1, 2, 3, 4]


def test_run_longer_than_the_capacity(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 3)
    for number in range(5):
        buffer.append(sample(number))
    assert buffer.get_segments() == []
    buffer.mark_segment_end()
    assert buffer.get_segments() == [(0, 3)]
    assert (buffer.count, buffer.offset) == (3, 2)


def test_without_segments(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 3, maintain_segment_metadata=False)
    buffer.extend(batch([1, 2]))
    assert buffer.get_segments() is None
    assert not buffer.maintain_segment_metadata
    assert metadata(tmp_path)["physical_segments"] is None


def test_segments_of_the_storage(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = make(kind, tmp_path, 4, maintain_segment_metadata=False)
    buffer.extend(batch(range(3)))
    buffer.extend(batch(range(3)))
    monkeypatch.setattr(kind, "get_segments", lambda self: [(3, 1), (2, 2)])
    assert buffer.get_segments() == [(0, 1), (1, 4)]


def test_metadata_keys_and_order(kind: Any, tmp_path: Path) -> None:
    make(kind, tmp_path, 4)
    keys = [
        "type",
        "count",
        "offset",
        "capacity",
        "storage_cls",
        "storage_path_relative",
        "single_instance_space",
        "physical_segments",
    ]
    data = metadata(tmp_path)
    assert list(data)[:8] == keys
    ledger = ["ledger"] if kind is LedgerStorage else []
    assert list(data)[8:] == [*ledger, "checksum"]
    assert data["storage_path_relative"] == "storage"
    assert data["physical_segments"] == []


# -- create, load -----------------------------------------------------------------------------


def test_loadable_from_the_moment_of_create(kind: Any, tmp_path: Path) -> None:
    assert not ReplayBuffer.is_loadable_from(tmp_path / "rb")
    assert ReplayBuffer.get_length_from_path(tmp_path / "rb") is None
    make(kind, tmp_path, 7)
    assert ReplayBuffer.is_loadable_from(tmp_path / "rb")
    assert ReplayBuffer.get_length_from_path(tmp_path / "rb") == 0
    assert ReplayBuffer.get_capacity_from_path(tmp_path / "rb") == 7
    space = ReplayBuffer.get_space_from_path(tmp_path / "rb", backend=NumpyComputeBackend)
    assert space == SPACE
    assert len(load(tmp_path)) == 0


def test_create_refuses_a_used_directory(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "rb").mkdir()
    make(kind, tmp_path)
    before = (tmp_path / "rb" / "metadata.json").read_bytes()
    with pytest.raises(StorageExistsError):
        make(kind, tmp_path)
    assert (tmp_path / "rb" / "metadata.json").read_bytes() == before


def test_load_refuses_what_is_no_buffer(tmp_path: Path) -> None:
    with pytest.raises(MissingStorageError):
        load(tmp_path)
    (tmp_path / "rb").mkdir()
    for text in ('{"type": "Other"}', "{", '{"type": "ReplayBuffer", "count": -1}'):
        (tmp_path / "rb" / "metadata.json").write_text(text)
        with pytest.raises(ManifestError):
            load(tmp_path)


def test_load_keeps_inside_the_directory(kind: Any, tmp_path: Path) -> None:
    make(kind, tmp_path)
    data = metadata(tmp_path)
    del data["checksum"]
    for path in ("../storage", "/storage", "a/../../storage"):
        data["storage_path_relative"] = path
        (tmp_path / "rb" / "metadata.json").write_text(json.dumps(data))
        with pytest.raises(ManifestError, match="outside"):
            load(tmp_path)


def test_load_compares_the_space(kind: Any, tmp_path: Path) -> None:
    make(kind, tmp_path)
    part = DictSpace(NumpyComputeBackend, {"a": SPACE["a"]})
    other = DictSpace(NumpyComputeBackend, {"b": SPACE["a"]})
    assert load(tmp_path, single_instance_space=SPACE).single_space is SPACE
    assert load(tmp_path, single_instance_space=part).single_space is part
    with pytest.raises(SchemaMismatchError):
        load(tmp_path, single_instance_space=part, read_only=False)
    with pytest.raises(SchemaMismatchError):
        load(tmp_path, single_instance_space=other)


def test_infinite_bounds_are_valid_json(kind: Any, tmp_path: Path) -> None:
    from unienv_interface.space import BoxSpace

    space = BoxSpace(NumpyComputeBackend, -np.inf, np.inf, np.float32, shape=(2,))
    ReplayBuffer.create(kind, space, cache_path=tmp_path / "rb")
    text = (tmp_path / "rb" / "metadata.json").read_text()
    assert "Infinity" not in text
    assert ReplayBuffer.get_space_from_path(tmp_path / "rb", backend=NumpyComputeBackend) == space


def test_several_processes_and_segments_do_not_go_together(kind: Any, tmp_path: Path) -> None:
    text = "maintain_segment_metadata=True with multiprocessing=True"
    with pytest.raises(RuntimeError, match=text):
        make(kind, tmp_path, multiprocessing=True)
    buffer = make(kind, tmp_path)
    with pytest.raises(RuntimeError, match=text):
        ReplayBuffer(
            buffer.storage, "storage", multiprocessing=True, maintain_segment_metadata=True
        )
    with pytest.raises(AssertionError, match="processes"):
        ReplayBuffer(buffer.storage, "storage", multiprocessing=True)
    with pytest.raises(RuntimeError, match="multiprocessing=True with maintained segment"):
        load(tmp_path, read_only=False, multiprocessing=True)
    loaded = load(tmp_path, multiprocessing=True)
    assert loaded.is_multiprocessing_safe
    assert loaded.get_segments() == []


# -- reading and writing ----------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 2])
def test_index_kinds(kind: Any, tmp_path: Path, offset: int) -> None:
    buffer = make(kind, tmp_path, 5)
    buffer.extend(batch(range(5)))
    if offset:
        buffer.extend(batch(range(5, 5 + offset)))
    expected = np.arange(offset, 5 + offset)
    mask = np.array([True, False, True, True, False])
    for index in (..., slice(1, 4), slice(None, None, -2), [0, -1], np.array([3, 3]), mask, []):
        key = np.array([], dtype=np.int64) if isinstance(index, list) and not index else index
        assert numbers(buffer.get_at(index)) == expected[key].tolist()
        assert numbers(buffer[index]) == expected[key].tolist()
    assert numbers(buffer.get_at(-1)) == [expected[-1]]
    assert buffer.get_at(-1)["a"].shape == (2,)
    assert buffer.get_at_with_metadata(0)[1] is None
    for wrong in (5, -6, np.array([5]), mask[:4]):
        with pytest.raises((AssertionError, IndexError)):
            buffer.get_at(wrong)


def test_rows_beyond_the_count_are_not_there(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 5)
    buffer.extend(batch([1, 2]))
    assert numbers(buffer.get_at(...)) == [1, 2]
    for index in (2, -3, [2]):
        with pytest.raises(RowIndexError):
            buffer.get_at(index)
    with pytest.raises(RowIndexError):
        buffer.set_at(2, sample(0))


def test_long_append_forgets_old_segments(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 3)
    for number in range(2000):
        buffer.append(sample(number))
        buffer.mark_segment_end()
    assert buffer.get_segments() == [(0, 1), (1, 2), (2, 3)]
    assert len(buffer._ledger.segments()) < 300


def test_refused_values_change_nothing(kind: Any, tmp_path: Path) -> None:
    for capacity in (None, 3):
        path = tmp_path / str(capacity)
        path.mkdir()
        buffer = make(kind, path, capacity)
        buffer.extend(batch([0, 1, 2]))
        for opened in (False, True):
            if opened:
                buffer.append(sample(3))
            before = (buffer.count, buffer.offset, buffer.get_segments(), len(buffer.storage))
            values = numbers(buffer.get_at(...))
            wrong = {**sample(9), "a": np.zeros(3)}
            with pytest.raises(SampleError):
                buffer.append(wrong)
            if not opened:
                assert not buffer.storage.has_open_segment
                with pytest.raises(SampleError):
                    buffer.extend({**batch([7, 8]), "a": np.zeros((2, 3))})
                with pytest.raises(SampleError, match="rows"):
                    buffer.extend({**batch([7, 8]), "b": np.zeros(3, dtype=np.int64)})
                with pytest.raises(SampleError, match="not a batch"):
                    buffer.extend(sample(1))
                with pytest.raises(KeyError, match="lacks"):
                    buffer.extend({"a": np.zeros((1, 2))})
            assert values == numbers(buffer.get_at(...))
            assert before == (
                buffer.count,
                buffer.offset,
                buffer.get_segments(),
                len(buffer.storage),
            )


def test_extend_during_a_run_is_refused(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path)
    buffer.append(sample(0))
    assert buffer.storage.has_open_segment
    with pytest.raises(SegmentStateError, match="mark_segment_end"):
        buffer.extend(batch([1]))
    buffer.mark_segment_end()
    buffer.mark_segment_end()
    assert not buffer.storage.has_open_segment
    buffer.extend(batch([1]))
    assert buffer.get_segments() == [(0, 1), (1, 2)]
    buffer.extend(batch([]))
    assert len(buffer) == 2


def test_segment_writer(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 4)
    buffer.extend(batch([0, 1, 2]))
    writer = buffer.open_segment_writer()
    for number in (3, 4):
        writer.append(sample(number))
    assert len(buffer) == 3
    buffer.commit_segment(writer)
    assert writer.is_finished
    assert numbers(buffer.get_at(...)) == [1, 2, 3, 4]
    assert buffer.get_segments() == [(0, 2), (2, 4)]
    writer = buffer.open_segment_writer()
    for number in range(5):
        writer.append(sample(number))
    with pytest.raises(ValueError, match="capacity"):
        buffer.commit_segment(writer)
    with pytest.raises(AssertionError, match="another storage"):
        make(kind, tmp_path / "other").commit_segment(writer)
    buffer.commit_segment(buffer.open_segment_writer())
    assert numbers(buffer.get_at(...)) == [1, 2, 3, 4]


def test_clear(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 4)
    buffer.extend(batch(range(3)))
    buffer.extend(batch(range(3)))
    buffer.append(sample(1))
    buffer.clear()
    assert (buffer.count, buffer.offset, buffer.get_segments()) == (0, 0, [])
    assert not buffer.storage.has_open_segment
    assert ReplayBuffer.get_length_from_path(tmp_path / "rb") == 0
    buffer.extend(batch([5, 6]))
    assert numbers(buffer.get_at(...)) == [5, 6]
    assert buffer.get_segments() == [(0, 2)]


def test_count_and_offset_can_be_set(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 4)
    buffer.extend(batch(range(4)))
    buffer.offset = 2
    assert numbers(buffer.get_at(...)) == [2, 3, 0, 1]
    buffer.count = 3
    assert numbers(buffer.get_at(...)) == [2, 3, 0]
    assert (buffer.count, buffer.offset) == (3, 2)
    for count in (-1, 5):
        with pytest.raises(StorageArgumentError):
            buffer.count = count
    growing = make(kind, tmp_path / "growing")
    growing.extend(batch(range(4)))
    growing.count = 2
    assert numbers(growing.get_at(...)) == [0, 1]
    growing.extend(batch([7]))
    assert numbers(growing.get_at(...)) == [0, 1, 7]
    with pytest.raises(CapacityError):
        growing.count = 9
    with pytest.raises(StorageArgumentError):
        growing.offset = 1


def test_constructor_arguments(kind: Any, tmp_path: Path) -> None:
    storage = make(kind, tmp_path, 4).storage
    storage.set(slice(0, 4), batch([2, 3, 0, 1]))
    buffer = ReplayBuffer(storage, "storage", 4, 2, physical_segments=[(2, 3), (0, 0)])
    assert numbers(buffer.get_at(...)) == [0, 1, 2, 3]
    assert buffer.get_segments() == [(0, 2), (2, 3)]
    open_run = ReplayBuffer(
        storage,
        "storage",
        4,
        2,
        maintain_segment_metadata=True,
        active_segment_start_physical=1,
        active_segment_length=1,
    )
    open_run.append(sample(4))
    open_run.mark_segment_end()
    assert open_run.get_segments() == [(2, 4)]


def test_read_only(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 4)
    buffer.extend(batch([1, 2]))
    buffer.flush()
    loaded = load(tmp_path)
    assert not loaded.is_mutable
    for call in (
        lambda: loaded.append(sample(0)),
        lambda: loaded.extend(batch([0])),
        lambda: loaded.set_at(0, sample(0)),
        loaded.clear,
        loaded.open_segment_writer,
    ):
        with pytest.raises(ReadOnlyError):
            call()
    assert numbers(loaded.get_at(...)) == [1, 2]
    buffer.extend(batch([3]))
    buffer.flush()
    assert loaded.refresh() == 3
    assert numbers(loaded.get_at(...)) == [1, 2, 3]
    assert loaded.get_segments() == [(0, 2), (2, 3)]


def test_columns_are_live(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Column(PlainStorage):
        @override
        def get(self, index: Any) -> Any:
            return super().get(index)["b"]

    def get_column(self: Any, keys: Any) -> Any:
        return Column(SPACE["b"], self.disk)

    monkeypatch.setattr(kind, "get_column", get_column, raising=False)
    buffer = make(kind, tmp_path, 3)
    view = buffer.get_column("b")
    assert isinstance(view, ReplayBuffer)
    buffer.extend(batch(range(5)))
    buffer.append(sample(5))
    assert view.get_at(...).tolist() == [3, 4, 5]
    assert view.single_space == SPACE["b"]
    calls: list[Callable[[], object]] = [
        lambda: view.append(1),
        lambda: view.extend([1]),
        view.clear,
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="view"):
            call()
    view.close()
    assert len(buffer) == len(view) == 3
    buffer.close()
    with pytest.raises(StorageClosedError):
        view.get_at(0)


# -- durability -------------------------------------------------------------------------------


def test_close_writes_everything_once(kind: Any, tmp_path: Path) -> None:
    with make(kind, tmp_path, 3) as buffer:
        buffer.extend(batch([1, 2]))
    buffer.close()
    assert metadata(tmp_path)["count"] == 2
    assert len(buffer) == 2
    assert "closed" in repr(buffer)
    for call in (lambda: buffer.get_at(0), lambda: buffer.append(sample(0)), buffer.flush):
        with pytest.raises(StorageClosedError):
            call()
    loaded = load(tmp_path, read_only=False)
    assert numbers(loaded.get_at(...)) == [1, 2]
    assert loaded.get_segments() == [(0, 2)]


def test_close_after_the_directory_is_gone(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path)
    (tmp_path / "rb" / "metadata.json").unlink()
    (tmp_path / "rb").rmdir()
    buffer.close()
    assert not (tmp_path / "rb").exists()


def test_in_memory_only(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = make(kind, tmp_path).storage
    buffer = ReplayBuffer(storage, "storage")
    buffer.extend(batch([1]))
    buffer.flush()
    assert "in memory" in repr(buffer)
    buffer.close()


def test_dumps_elsewhere_does_not_attach(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 3)
    buffer.extend(batch(range(5)))
    buffer.extend(batch([5]))
    for _ in range(2):
        buffer.dumps(tmp_path / "copy" / "rb")
    buffer.extend(batch([6]))
    assert buffer.cache_path == tmp_path / "rb"
    copied = load(tmp_path / "copy")
    assert numbers(copied.get_at(...)) == [3, 4, 5]
    assert copied.get_segments() == [(0, 2), (2, 3)]
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "metadata.json").write_text("{}")
    with pytest.raises(FileExistsError):
        buffer.dumps(tmp_path / "taken")


def test_upstream_rewrote_the_metadata(tmp_path: Path) -> None:
    buffer = make(LedgerStorage, tmp_path, 4)
    buffer.extend(batch(range(4)))
    buffer.close()
    data = metadata(tmp_path)
    del data["ledger"], data["checksum"]
    data.update(count=3, offset=2, physical_segments=[[2, 3], [0, 0]])
    (tmp_path / "rb" / "metadata.json").write_text(json.dumps(data))
    for read_only in (True, False):
        loaded = load(tmp_path, read_only=read_only)
        assert numbers(loaded.get_at(...)) == [2, 3, 0]
        assert loaded.get_segments() == [(0, 2), (2, 3)]


def test_metadata_counts_more_rows_than_the_storage_has(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path)
    buffer.extend(batch(range(4)))
    buffer.close()
    data = metadata(tmp_path)
    data.pop("ledger", None)
    del data["checksum"]
    data["count"] = 9
    data["physical_segments"] = [[0, 8]]
    (tmp_path / "rb" / "metadata.json").write_text(json.dumps(data))
    for read_only in (True, False):
        loaded = load(tmp_path, read_only=read_only)
        assert numbers(loaded.get_at(...)) == [0, 1, 2, 3]
        assert loaded.get_segments() == [(0, 4)]


def test_metadata_counts_fewer_rows_than_the_storage_has(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path)
    buffer.extend(batch(range(4)))
    buffer.close()
    data = metadata(tmp_path)
    data.pop("ledger", None)
    del data["checksum"]
    data["count"] = 2
    data["physical_segments"] = [[0, 1]]
    (tmp_path / "rb" / "metadata.json").write_text(json.dumps(data))
    loaded = load(tmp_path, read_only=False)
    assert numbers(loaded.get_at(...)) == [0, 1]
    loaded.extend(batch([7, 8, 9]))
    assert numbers(loaded.get_at(...)) == [0, 1, 7, 8, 9]
    assert loaded.get_segments() == [(0, 2), (2, 5)]


def test_copies_are_of_the_same_position(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 3)
    buffer.extend(batch(range(5)))
    twin = copy.deepcopy(buffer)
    assert numbers(twin.get_at(...)) == [2, 3, 4]
    assert twin.get_segments() == [(0, 3)]
    if kind is PlainStorage:
        before = (tmp_path / "rb" / "metadata.json").read_bytes()
        twin.extend(batch([9]))
        twin.close()
        assert (tmp_path / "rb" / "metadata.json").read_bytes() == before


def test_dumps_of_a_reader_into_its_own_directory(kind: Any, tmp_path: Path) -> None:
    make(kind, tmp_path).close()
    before = os.stat(tmp_path / "rb" / "metadata.json").st_ino
    load(tmp_path).dumps(tmp_path / "rb")
    assert os.stat(tmp_path / "rb" / "metadata.json").st_ino == before


def test_threads_append_and_read(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 16)
    buffer.extend(batch(range(16)))
    problems: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(300):
                rows = numbers(buffer.get_at(...))
                assert rows == list(range(rows[0], rows[0] + 16))
        except BaseException as error:  # noqa: BLE001 - reported below
            problems.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(16, 1000):
        buffer.append(sample(number))
    for thread in threads:
        thread.join()
    assert not problems


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_never_writes_the_directory(kind: Any, tmp_path: Path) -> None:
    buffer = make(kind, tmp_path, 4)
    buffer.extend(batch([1]))
    before = (tmp_path / "rb" / "metadata.json").read_bytes()
    child = os.fork()
    if child == 0:
        try:
            buffer.flush()
            buffer.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "rb" / "metadata.json").read_bytes() == before


# -- against an obvious oracle ----------------------------------------------------------------


class Oracle:
    """A list of numbers and a list of segments, cut from the front."""

    def __init__(self, capacity: int | None) -> None:
        self.capacity = capacity
        self.rows: list[int] = []
        self.owner: list[int | None] = []
        self.segment = 0
        self.is_open = False

    def add(self, rows: list[int], owner: int | None) -> None:
        self.rows += rows
        self.owner += [owner] * len(rows)
        if self.capacity is not None:
            self.rows = self.rows[-self.capacity :]
            self.owner = self.owner[-self.capacity :]

    def extend(self, rows: list[int]) -> None:
        if rows:
            self.segment += 1
            self.add(rows, self.segment)

    def append(self, row: int) -> None:
        self.is_open = True
        self.add([row], -1)

    def end(self) -> None:
        self.segment += 1
        self.owner = [self.segment if owner == -1 else owner for owner in self.owner]
        self.is_open = False

    def drop_run(self) -> None:
        self.owner = [None if owner == -1 else owner for owner in self.owner]
        self.is_open = False

    def clear(self) -> None:
        self.rows, self.owner, self.is_open = [], [], False

    @property
    def segments(self) -> list[tuple[int, int]]:
        found = []
        for number in sorted({owner for owner in self.owner if owner is not None and owner > 0}):
            places = [n for n, owner in enumerate(self.owner) if owner == number]
            found.append((places[0], places[-1] + 1))
        return found


operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.just(0)),
        st.tuples(st.just("append"), st.just(0)),
        st.tuples(st.just("extend"), st.integers(0, 12)),
        st.tuples(st.just("end"), st.just(0)),
        st.tuples(st.just("set"), st.integers(0, 100)),
        st.tuples(st.just("clear"), st.just(0)),
        st.tuples(st.just("commit"), st.integers(0, 3)),
        st.tuples(st.just("reopen"), st.booleans()),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("copy"), st.just(0)),
        st.tuples(st.just("flush"), st.just(0)),
    ),
    max_size=25,
)


@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(capacity=st.one_of(st.none(), st.integers(1, 7)), steps=operations)
def test_agrees_with_the_oracle(
    kind: Any, capacity: int | None, steps: list[tuple[str, Any]], tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.mktemp("oracle")
    buffer, oracle, number = make(kind, path, capacity), Oracle(capacity), 0
    for step, argument in steps:
        if step == "append":
            buffer.append(sample(number))
            oracle.append(number)
            number += 1
        elif step == "extend" and not oracle.is_open:
            rows = list(range(number, number + argument))
            buffer.extend(batch(rows))
            oracle.extend(rows)
            number += argument
        elif step == "commit" and not oracle.is_open and argument <= (capacity or argument):
            writer = buffer.open_segment_writer()
            rows = list(range(number, number + argument))
            for row in rows:
                writer.append(sample(row))
            buffer.commit_segment(writer)
            oracle.extend(rows)
            number += argument
        elif step == "end":
            buffer.mark_segment_end()
            if oracle.is_open:
                oracle.end()
        elif step == "set" and oracle.rows:
            place = argument % len(oracle.rows)
            buffer.set_at(place, sample(number))
            oracle.rows[place] = number
            number += 1
        elif step == "clear":
            buffer.clear()
            oracle.clear()
        elif step == "flush":
            buffer.flush()
        elif step == "reopen":
            buffer.close()
            buffer = load(path, read_only=False)
            oracle.drop_run()
        elif step == "crash" and kind is LedgerStorage:
            buffer.storage.disk.recover()
            buffer = load(path, read_only=False)
            oracle.drop_run()
        elif step == "copy" and not oracle.is_open:
            buffer.dumps(path / "copy" / "rb")
            copied = load(path / "copy")
            assert numbers(copied.get_at(...)) == oracle.rows
            assert copied.get_segments() == oracle.segments
        assert len(buffer) == buffer.count == len(oracle.rows)
        assert numbers(buffer.get_at(...)) == oracle.rows
        assert buffer.get_segments() == oracle.segments
        assert 0 <= buffer.offset < (capacity or 1)
    DISKS.clear()


# -- helper -----------------------------------------------------------------------------------


def test_index_with_offset() -> None:
    backend: Any = NumpyComputeBackend
    assert index_with_offset(backend, -1, 4, 3) == 2
    for index in (..., slice(0, 4), [0, 1, 2, 3], np.ones(4, dtype=bool)):
        assert index_with_offset(backend, index, 4, 3).tolist() == [3, 0, 1, 2]
    with pytest.raises(AssertionError):
        index_with_offset(backend, 4, 4, 0)


# -- several processes ------------------------------------------------------------------------


class SharedStorage(PlainStorage):
    """Rows are not shared here; the position is what these tests look at."""

    @property
    @override
    def is_multiprocessing_safe(self) -> bool:
        return True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_position_is_shared_by_processes(tmp_path: Path) -> None:
    buffer = make(SharedStorage, tmp_path, 4, multiprocessing=True, maintain_segment_metadata=False)
    buffer.extend(batch([1]))
    child = os.fork()
    if child == 0:
        try:
            buffer.extend(batch([2, 3]))
            buffer.append(sample(4))
            buffer.mark_segment_end()
            buffer.extend(batch([5, 6]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert (buffer.count, buffer.offset) == (4, 2)
    buffer.clear()
    assert (buffer.count, buffer.offset) == (0, 0)
    assert buffer.get_segments() is None


def test_bad_argument_leaves_no_directory(kind: Any, tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise TypeError("unknown keyword")

    monkeypatch.setattr(kind, "create", refuse)
    with pytest.raises(TypeError):
        make(kind, tmp_path)
    assert not (tmp_path / "rb").exists()


def test_rows_kept_aside_by_the_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    buffer = make(PlainStorage, tmp_path, 3)
    storage = buffer.storage
    monkeypatch.setattr(storage, "mark_segment_end", lambda: calls.append("end"))
    monkeypatch.setattr(storage, "mark_segment_start", lambda row: calls.append(row))
    monkeypatch.setattr(storage, "append", lambda value: calls.append("row"))
    buffer.append(sample(0))
    storage.pending_segment_length = 1
    buffer.flush()
    assert metadata(tmp_path)["count"] == 0
    storage.pending_segment_length = 3
    buffer.append(sample(1))
    storage.pending_segment_length = 0
    buffer.append(sample(2))
    assert calls == [0, "row", "row", "end", 2, "row"]
    assert buffer.count == 3
    buffer.mark_segment_end()
    assert buffer.get_segments() == [(0, 3)]
