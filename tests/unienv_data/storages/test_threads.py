"""Calls on one storage are atomic to each other. Each row says which thread wrote it, and when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.errors import CommitConflictError, StorageClosedError
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import DictSpace, TextSpace

SPACE = DictSpace(
    B,
    {
        "who": box("int64", ()),
        "turn": box("int64", ()),
        "wide": box("int64", (9,)),
        "text": TextSpace(B, 40),
    },
)
TURNS = 120


def by(who: int, turns: Any) -> dict[str, Any]:
    turns = np.asarray(turns)
    return {
        "who": np.full(len(turns), who),
        "turn": turns,
        "wide": turns[:, None] * 1009 + who * 31 + np.arange(9),
        "text": np.array([f"{who} at {turn}" for turn in turns.tolist()], dtype=object),
    }


def one(who: int, turn: int) -> dict[str, Any]:
    return {name: values[0] for name, values in by(who, [turn]).items()}


def check(found: dict[str, Any]) -> None:
    """Every row is wholly of one thread and one call."""
    for place, (who, turn) in enumerate(zip(found["who"], found["turn"], strict=True)):
        expected = one(int(who), int(turn))
        assert np.array_equal(found["wide"][place], expected["wide"]), (who, turn)
        assert found["text"][place] == expected["text"]


def run(*actions: Callable[[], None]) -> None:
    """Runs every action in a thread of its own, from one instant on, and raises what one raised."""
    barrier = threading.Barrier(len(actions))
    errors: list[BaseException] = []

    def guarded(action: Callable[[], None]) -> None:
        barrier.wait()
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error


@pytest.mark.slow
def test_threads_that_append_set_read_and_flush_one_storage(tmp_path: Path) -> None:
    storage = ParquetStorage.create(
        SPACE, cache_path=tmp_path / "s", piece_size=8, durability="process", bank_bytes=30_000
    )
    storage.extend_length(40)
    storage.set(slice(0, 40), by(0, np.arange(40)))
    storage.flush()
    storage.mark_segment_start(40)
    reader = ParquetStorage.load_from(
        tmp_path / "s", SPACE, bank_bytes=10_000, cache_dir=tmp_path / "cache"
    )
    conflicts, seen = [], []

    def append(who: int) -> Callable[[], None]:
        def action() -> None:
            for turn in range(TURNS):
                storage.append(one(who, turn))

        return action

    def overwrite(who: int) -> Callable[[], None]:
        def action() -> None:  # rows of two threads alternate in every piece
            for turn in range(TURNS):
                rows = np.arange(who % 2, 40, 2)
                storage.set(rows, by(who, np.full(len(rows), turn)))

        return action

    def read() -> None:
        for _ in range(TURNS):
            found = storage.get(slice(0, 40))
            check(found)
            for start in (0, 1):  # each `set` is seen as a whole
                assert len(set(found["turn"][start::2].tolist())) in (1, 20)
            storage.get_column("text").get(3)
            len(storage), repr(storage), storage.get(-1)

    def flush() -> None:
        for _ in range(TURNS // 4):
            storage.flush()

    def follow() -> None:
        for _ in range(TURNS):
            reader.refresh()
            try:
                check(reader.get(slice(0, 40)))
                seen.append(len(reader))
            except CommitConflictError:
                conflicts.append(True)

    run(append(2), append(3), overwrite(4), overwrite(5), read, read, flush, follow, follow)
    storage.mark_segment_end()
    assert len(storage) == 40 + 2 * TURNS
    assert seen
    found = storage.get(...)
    check(found)
    for who in (2, 3):  # nothing lost, nothing twice, in order
        assert found["turn"][40:][found["who"][40:] == who].tolist() == list(range(TURNS))
    assert set(found["who"][:40].tolist()) == {4, 5}
    storage.close()
    reader.refresh()
    check(reader.get(...))
    assert len(reader) == 40 + 2 * TURNS
    reader.close()


@pytest.mark.parametrize("capacity", [None, 64])
def test_threads_that_append_to_one_buffer(tmp_path: Path, capacity: int | None) -> None:
    buffer: Any = ReplayBuffer.create(
        ParquetStorage,
        SPACE,
        cache_path=tmp_path / "b",
        capacity=capacity,
        piece_size=8,
        durability="process",
    )

    def extend(who: int) -> Callable[[], None]:
        def action() -> None:
            for turn in range(0, TURNS, 3):
                buffer.extend(by(who, np.arange(turn, turn + 3)))
                check(buffer.get_at(slice(0, 3)))

        return action

    def flush() -> None:
        for _ in range(TURNS // 4):
            buffer.flush()

    run(extend(1), extend(2), extend(3), flush)
    assert len(buffer) == (capacity or 3 * TURNS)
    buffer.close()
    late: Any = ReplayBuffer.load_from(tmp_path / "b", backend=B)
    found = late.get_at(slice(0, len(late)))
    check(found)
    for who in (1, 2, 3):
        turns = found["turn"][found["who"] == who].tolist()
        assert turns == list(range(TURNS - len(turns), TURNS))
    late.close()


@pytest.mark.parametrize("mode", ["writer", "reader"])
def test_closing_under_the_feet_of_other_threads(tmp_path: Path, mode: str) -> None:
    for attempt in range(8):
        path = tmp_path / str(attempt)
        storage = ParquetStorage.create(SPACE, cache_path=path, piece_size=8, durability="process")
        storage.extend_length(40)
        storage.set(slice(0, 40), by(0, np.arange(40)))
        if mode == "reader":
            storage.close()
            storage = ParquetStorage.load_from(path, SPACE)
        enough = threading.Event()

        def use(storage: ParquetStorage = storage, enough: threading.Event = enough) -> None:
            try:
                for turn in range(100_000):
                    check(storage.get(slice(8, 16)))
                    if mode == "writer":
                        storage.set(slice(0, 4), by(1, np.full(4, turn)))
                        if turn % 3 == 0:
                            storage.flush()
                    else:
                        storage.refresh()
                    if turn == 3:
                        enough.set()
            except StorageClosedError:
                return
            raise AssertionError("it was never closed")

        def close(storage: ParquetStorage = storage, enough: threading.Event = enough) -> None:
            enough.wait()
            storage.close()
            storage.close()

        run(use, use, close, close)
        assert storage.is_closed
        with ParquetStorage.load_from(path, SPACE) as reader:
            check(reader.get(...))
            assert len(reader) == 40
