"""The process dies at every store in turn; what is opened then is a state that may be seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from replay_fakes import SPACE, Killed, LedgerStorage, batch, numbers, sample

from unienv_data.replay_buffer import ReplayBuffer
from unienv_interface.backends.numpy import NumpyComputeBackend

Seen = tuple[list[int], list[tuple[int, int]]]


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "unienv_data.replay_buffer.replay_buffer.resolve_storage", lambda name: LedgerStorage
    )


def load(path: Path, **kwargs: Any) -> Any:
    return ReplayBuffer.load_from(path, backend=NumpyComputeBackend, **kwargs)


def seen(buffer: Any) -> Seen:
    return numbers(buffer.get_at(...)), buffer.get_segments()


def commit(buffer: Any, rows: list[int], *, with_batch: bool) -> None:
    writer = buffer.open_segment_writer()
    for row in rows:
        writer.append(sample(row))
    if with_batch:
        writer.batch = batch(rows)
    buffer.commit_segment(writer)


SCRIPT: list[Any] = [
    lambda buffer: buffer.extend(batch([1, 2, 3])),
    lambda buffer: buffer.append(sample(4)),
    lambda buffer: buffer.append(sample(5)),
    lambda buffer: buffer.append(sample(6)),
    lambda buffer: buffer.mark_segment_end(),
    lambda buffer: buffer.extend(batch([7, 8])),
    lambda buffer: buffer.flush(),
    lambda buffer: buffer.extend(batch([9, 10, 11, 12, 13, 14])),
    lambda buffer: buffer.append(sample(15)),
    lambda buffer: buffer.mark_segment_end(),
    lambda buffer: commit(buffer, [16, 17], with_batch=True),
    lambda buffer: buffer.clear(),
    lambda buffer: buffer.append(sample(20)),
    lambda buffer: buffer.mark_segment_end(),
    lambda buffer: buffer.extend(batch([21, 22])),
]


def cut(state: Seen, count: int) -> Seen:
    """A state after the oldest `count` rows were given up."""
    rows, segments = state
    kept = [(max(a - count, 0), b - count) for a, b in segments if b > count]
    return rows[count:], kept


def allowed(before: Seen, after: Seen, step: int, capacity: int | None) -> list[Seen]:
    states = [before, after]
    if step in (1, 2, 3, 8) and len(before[0]) == capacity:
        states.append(cut(before, 1))  # the oldest row makes room
    if step == 11 and capacity is None:
        states.append(([], []))
    return states


def states_of(path: Path, capacity: int | None) -> list[Seen]:
    buffer = create(path, capacity)
    found = [seen(buffer)]
    for step in SCRIPT:
        step(buffer)
        found.append(seen(buffer))
    return found


def create(path: Path, capacity: int | None) -> Any:
    return ReplayBuffer.create(
        LedgerStorage,
        SPACE,
        cache_path=path,
        capacity=capacity,
        maintain_segment_metadata=True,
    )


@pytest.mark.parametrize("capacity", [None, 3, 4, 8])
def test_killed_at_every_store(tmp_path: Path, capacity: int | None) -> None:
    states = states_of(tmp_path / "model", capacity)
    tick, steps_hit = 0, set()
    while True:
        path = tmp_path / str(tick)
        buffer = create(path, capacity)
        disk = buffer.storage.disk
        disk.kill_at = disk.ticks + tick
        step = 0
        try:
            for step, call in enumerate(SCRIPT):  # noqa: B007 - read in the handler
                call(buffer)
        except Killed:
            pass
        else:
            break
        disk.recover()
        found = seen(load(path, read_only=False))
        assert found in allowed(states[step], states[step + 1], step, capacity), (step, tick)
        # and it can be gone on with
        again = load(path, read_only=False)
        again.extend(batch([90]))
        rows, segments = seen(again)
        assert rows == [*found[0], 90][-(capacity or len(rows)) :]
        assert segments[-1] == (len(rows) - 1, len(rows))
        steps_hit.add(step)
        tick += 1
    assert steps_hit >= set(range(len(SCRIPT))) - {6}


@pytest.mark.parametrize("capacity", [None, 4])
def test_writer_that_only_stores_itself(tmp_path: Path, capacity: int | None) -> None:
    tick = 0
    while True:
        path = tmp_path / str(tick)
        buffer = create(path, capacity)
        buffer.extend(batch([1, 2, 3]))
        disk = buffer.storage.disk
        disk.kill_at = disk.ticks + tick
        try:
            commit(buffer, [4, 5], with_batch=False)
        except Killed:
            disk.recover()
            rows, segments = seen(load(path, read_only=False))
            # rows that had to make room are gone, no other
            assert rows in ([1, 2, 3], [2, 3], [1, 2, 3, 4, 5][-(capacity or 5) :])
            assert [row for a, b in segments for row in rows[a:b]] == rows
        else:
            break
        tick += 1
    assert tick >= 2


@pytest.mark.parametrize("capacity", [None, 4])
def test_failed_extension_leaves_no_segment(tmp_path: Path, capacity: int | None) -> None:
    buffer = create(tmp_path / "rb", capacity)
    buffer.extend(batch([1, 2, 3]))
    buffer.storage.fails = True
    with pytest.raises(ValueError, match="fit"):
        buffer.extend(batch([4, 5]))
    assert buffer.storage.ledger.segments() == [(0, 3)]
    buffer.storage.fails = False
    buffer.append(sample(4))
    buffer.append(sample(5))
    buffer.storage.disk.recover()
    rows, segments = seen(load(tmp_path / "rb", read_only=False))
    assert rows == [1, 2, 3, 4, 5][-(capacity or 5) :]
    assert segments == [(0, 3 if capacity is None else 2)]


def test_storage_is_ahead_of_the_metadata(tmp_path: Path) -> None:
    buffer = create(tmp_path / "rb", 4)
    buffer.extend(batch([1, 2, 3]))
    buffer.flush()
    buffer.extend(batch([4, 5]))
    buffer.storage.close()  # committed, without the buffer's file
    for read_only in (True, False):
        rows, segments = seen(load(tmp_path / "rb", read_only=read_only))
        assert rows == [2, 3, 4, 5]
        assert segments == [(0, 2)]


def test_segments_of_before_a_clear_do_not_return(tmp_path: Path) -> None:
    buffer = create(tmp_path / "rb", 4)
    buffer.extend(batch([1, 2, 3]))
    buffer.flush()
    stale = (tmp_path / "rb" / "metadata.json").read_text()
    buffer.clear()
    buffer.extend(batch([7]))
    buffer.storage.close()
    (tmp_path / "rb" / "metadata.json").write_text(stale)
    assert seen(load(tmp_path / "rb")) == ([7], [])


def test_an_open_run_is_not_continued(tmp_path: Path) -> None:
    buffer = create(tmp_path / "rb", None)
    buffer.append(sample(1))
    buffer.storage.disk.recover()
    buffer = load(tmp_path / "rb", read_only=False)
    buffer.append(sample(2))
    buffer.mark_segment_end()
    assert seen(buffer) == ([1, 2], [(1, 2)])


def test_metadata_is_bound_to_the_commit(tmp_path: Path) -> None:
    buffer = create(tmp_path / "rb", 4)
    buffer.extend(batch([1, 2, 3, 4]))
    buffer.extend(batch([5]))
    buffer.flush()
    data = json.loads((tmp_path / "rb" / "metadata.json").read_text())
    assert data["ledger"] == {"generation": 0, "head": 5, "tail": 1}
    assert (data["count"], data["offset"]) == (4, 1)


@pytest.mark.parametrize("capacity", [None, 4])
def test_killed_while_opening(tmp_path: Path, capacity: int | None) -> None:
    buffer = create(tmp_path / "rb", capacity)
    for start in (1, 4):
        buffer.extend(batch([start, start + 1, start + 2]))
    expected = seen(buffer)
    buffer.close()
    disk = load(tmp_path / "rb").storage.disk
    tick = 0
    while True:
        disk.kill_at = disk.ticks + tick
        try:
            load(tmp_path / "rb", read_only=False)
        except Killed:
            disk.recover()
        else:
            break
        disk.words["known"] = 0
        assert seen(load(tmp_path / "rb")) == expected
        tick += 1
    disk.kill_at = None
    assert tick > 2
    assert seen(load(tmp_path / "rb", read_only=False)) == expected
