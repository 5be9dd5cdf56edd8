"""The buffer over the storage it was made for: killed for real, pickled, read by the original."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replay_fakes import SPACE, batch, numbers, read_into, sample

from unienv_data.errors import ForkedWriterError, ReadOnlyError, StorageLockedError
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.space import DictSpace, TextSpace

CAPACITIES = [None, 4, 10]


def make(path: Path, capacity: int | None, **kwargs: Any) -> Any:
    return ReplayBuffer.create(
        ParquetStorage,
        SPACE,
        cache_path=path,
        capacity=capacity,
        maintain_segment_metadata=True,
        piece_size=4,
        **kwargs,
    )


def load(path: Path, **kwargs: Any) -> Any:
    return ReplayBuffer.load_from(path, backend=NumpyComputeBackend, **kwargs)


def in_child(call: Any) -> int:
    """Runs a call in a forked child, and gives the signal or status it ended with."""
    child = os.fork()
    if child == 0:
        try:
            call()
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_killed_without_a_call(tmp_path: Path, capacity: int | None) -> None:
    make(tmp_path / "rb", capacity).close()

    def record() -> None:
        with load(tmp_path / "rb", read_only=False) as buffer:
            buffer.extend(batch(range(3)))
            for number in (3, 4, 5):
                buffer.append(sample(number))
            buffer.mark_segment_end()
            buffer.append(sample(6))
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(record) == -signal.SIGKILL
    rows = list(range(7))[-(capacity or 7) :]
    segments = [(0, 3)] if capacity == 4 else [(0, 3), (3, 6)]
    for _ in range(2):
        with load(tmp_path / "rb", read_only=False) as buffer:
            assert numbers(buffer.get_at(...)) == rows
            assert buffer.get_segments() == segments
    assert numbers(load(tmp_path / "rb").get_at(...)) == rows


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_closed_and_opened_again(tmp_path: Path, capacity: int | None) -> None:
    rows: list[int] = []
    make(tmp_path / "rb", capacity).close()
    for start in range(0, 24, 3):
        with load(tmp_path / "rb", read_only=False) as buffer:
            buffer.extend(batch([start, start + 1]))
            buffer.append(sample(start + 2))
            buffer.mark_segment_end()
            rows = [*rows, start, start + 1, start + 2][-(capacity or 100) :]
            assert numbers(buffer.get_at(...)) == rows
            if len(rows) > 3:
                assert buffer.get_segments()[-2:] == [
                    (len(rows) - 3, len(rows) - 1),
                    (len(rows) - 1, len(rows)),
                ]
            expected = buffer.get_segments()
        with load(tmp_path / "rb") as reader:
            assert numbers(reader.get_at(...)) == rows
            assert reader.get_segments() == expected


def test_one_writer(tmp_path: Path) -> None:
    buffer = make(tmp_path / "rb", 4)
    with pytest.raises(StorageLockedError):
        load(tmp_path / "rb", read_only=False)
    buffer.close()
    load(tmp_path / "rb", read_only=False).close()


def test_forked_child_may_only_read(tmp_path: Path) -> None:
    buffer = make(tmp_path / "rb", 4)
    buffer.append(sample(1))
    before = (tmp_path / "rb" / "metadata.json").read_bytes()

    def use() -> None:
        assert numbers(buffer.get_at(...)) == [1]
        calls: list[Callable[[], object]] = [
            lambda: buffer.append(sample(2)),
            lambda: buffer.extend(batch([2])),
        ]
        for call in calls:
            with pytest.raises((ReadOnlyError, ForkedWriterError)):
                call()
        buffer.close()
        os._exit(0)

    assert in_child(use) == 0
    assert (tmp_path / "rb" / "metadata.json").read_bytes() == before
    buffer.append(sample(3))
    assert numbers(buffer.get_at(...)) == [1, 3]


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_pickled_copy_reads_what_was_there(tmp_path: Path, capacity: int | None) -> None:
    buffer = make(tmp_path / "rb", capacity)
    buffer.extend(batch(range(6)))
    rows = numbers(buffer.get_at(...))
    copied = pickle.loads(pickle.dumps(buffer))
    assert not copied.is_mutable
    assert numbers(copied.get_at(...)) == rows
    assert copied.get_segments() == buffer.get_segments()
    buffer.extend(batch([6, 7]))
    text = pickle.dumps(buffer)
    buffer.append(sample(8))
    expected = numbers(buffer.get_at(...))
    buffer.close()
    writer = pickle.loads(text)
    assert writer.is_mutable
    assert numbers(writer.get_at(...)) == expected
    writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_read_in_a_child(tmp_path: Path, method: Any) -> None:
    with make(tmp_path / "rb", 4) as buffer:
        buffer.extend(batch(range(6)))
    reader = load(tmp_path / "rb")
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=read_into, args=(reader, queue))
    process.start()
    assert queue.get(timeout=60) == ([2, 3, 4, 5], [(0, 4)])
    process.join()


def test_column_view(tmp_path: Path) -> None:
    buffer = make(tmp_path / "rb", 4)
    view = buffer.get_column("b")
    buffer.extend(batch(range(6)))
    assert view.get_at(...).tolist() == [2, 3, 4, 5]
    assert view.get_at(np.array([0, -1])).tolist() == [2, 5]
    view.set_at(0, np.int64(9))
    assert buffer.get_at(0)["b"] == 9
    buffer.close()


def test_rows_of_the_original_library() -> None:
    golden = Path(__file__).parents[2] / "golden" / "upstream-0.0.1b16" / "buffer"
    with load(golden) as buffer:
        assert buffer.get_at(...)["x"].tolist() == [4, 5, 6, 7, 8]
        assert buffer.get_segments() == [(0, 2), (2, 5)]
        assert (buffer.capacity, buffer.offset) == (5, 4)


READ_BY_ORIGINAL = """
import json, sys
from unienv_data import ReplayBuffer
from unienv_interface.backends.numpy import NumpyComputeBackend
buffer = ReplayBuffer.load_from(sys.argv[1], backend=NumpyComputeBackend)
print(json.dumps([buffer.get_at(...)["b"].tolist(), buffer.get_segments(), buffer.offset]))
"""


@pytest.mark.upstream
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_read_by_the_original(tmp_path: Path, capacity: int | None, upstream_python: Path) -> None:
    buffer = make(tmp_path / "rb", capacity)
    buffer.extend(batch(range(3)))
    buffer.extend(batch(range(3, 6)))
    buffer.append(sample(6))
    buffer.mark_segment_end()
    expected = [numbers(buffer.get_at(...)), buffer.get_segments(), buffer.offset]
    buffer.close()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [upstream_python, "-I", "-c", READ_BY_ORIGINAL, tmp_path / "rb"],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert json.loads(done.stdout) == json.loads(json.dumps(expected))


WRITTEN_BY_ORIGINAL = """
import json, sys
import numpy as np
from unienv_data import ReplayBuffer
from unienv_interface.backends.numpy import NumpyComputeBackend
buffer = ReplayBuffer.load_from(sys.argv[1], backend=NumpyComputeBackend, read_only=False)
buffer.extend({"a": np.array([[7.0, -7.0], [8.0, -8.0]]), "b": np.array([7, 8])})
buffer.dumps(sys.argv[1])
buffer.close()
"""


@pytest.mark.upstream
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_continued_by_the_original(
    tmp_path: Path, capacity: int | None, upstream_python: Path
) -> None:
    with make(tmp_path / "rb", capacity) as buffer:
        buffer.extend(batch(range(3)))
        buffer.extend(batch(range(3, 7)))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    subprocess.run(
        [upstream_python, "-I", "-c", WRITTEN_BY_ORIGINAL, tmp_path / "rb"],
        check=True,
        capture_output=True,
        env=environment,
    )
    rows = list(range(9))[-(capacity or 9) :]
    segments = [(0, 2), (2, 4)] if capacity == 4 else [(0, 3), (3, 7), (7, 9)]
    for read_only in (True, False):
        with load(tmp_path / "rb", read_only=read_only) as buffer:
            assert numbers(buffer.get_at(...)) == rows
            assert buffer.get_segments() == segments
    with load(tmp_path / "rb", read_only=False) as buffer:
        buffer.extend(batch([9]))
        assert numbers(buffer.get_at(...)) == [*rows, 9][-(capacity or 10) :]


def test_closing_the_storage_first_loses_nothing(tmp_path: Path) -> None:
    """Programs of the original library do, since its buffers only drop their reference."""
    space = DictSpace(NumpyComputeBackend, {"x": box("int64", ())})
    for capacity, expected in ((None, [0, 1, 2, 3, 4]), (3, [2, 3, 4])):
        path = tmp_path / str(capacity)
        buffer = ReplayBuffer.create(
            ParquetStorage, space, cache_path=str(path), capacity=capacity, piece_size=2
        )
        buffer.extend({"x": np.arange(3)})
        buffer.extend({"x": np.arange(3, 5)})
        buffer.storage.close()
        buffer.close()
        with ReplayBuffer.load_from(path, backend=NumpyComputeBackend) as again:
            assert again.get_at(...)["x"].tolist() == expected


def test_a_segment_end_flushes_when_the_last_flush_is_long_ago(tmp_path: Path) -> None:
    """Rows and segments reach the disk together, with no call to make."""
    space = DictSpace(NumpyComputeBackend, {"x": box("int64", ())})
    counts = {}
    for interval in (0.0, 1e6):
        path = tmp_path / str(interval)
        buffer = ReplayBuffer.create(
            ParquetStorage,
            space,
            cache_path=str(path),
            maintain_segment_metadata=True,
            flush_interval_s=interval,
        )
        for value in range(5):
            buffer.append({"x": np.int64(value)})
        buffer.mark_segment_end()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            reader = ReplayBuffer.load_from(path, backend=NumpyComputeBackend)
        counts[interval] = (len(reader), reader.get_segments())
        reader.close()
        buffer.close()
    assert counts == {0.0: (5, [(0, 5)]), 1e6: (0, [])}


@pytest.mark.parametrize("by", ["append", "extend"])
def test_a_ring_of_unique_texts_does_not_grow(tmp_path: Path, by: str) -> None:
    space = DictSpace(NumpyComputeBackend, {"t": TextSpace(NumpyComputeBackend, 4096)})
    path = tmp_path / "rb"
    buffer = ReplayBuffer.create(
        ParquetStorage, space, cache_path=str(path), capacity=60, piece_size=16
    )
    sizes = []
    for lap in range(60):
        texts = [f"{lap}-{row}-" * 200 for row in range(60)]
        if by == "extend":
            buffer.extend({"t": texts})
        else:
            for text in texts:
                buffer.append({"t": text})
        work = path / "storage" / "_work" / "bank"
        sizes.append(sum(file.stat().st_blocks * 512 for file in work.iterdir()))
    assert max(sizes[20:]) <= 1.2 * max(sizes[:20])
    assert buffer.get_at(...)["t"].tolist() == texts
    buffer.close()
