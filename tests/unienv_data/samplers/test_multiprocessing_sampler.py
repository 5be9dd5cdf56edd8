from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from unienv_data.base.batch import BatchBase
from unienv_data.errors import SampleError, StorageClosedError
from unienv_data.samplers import MultiprocessingSampler, StepSampler
from unienv_data.samplers._workers import WorkerDiedError
from unienv_data.testing.batches import numbered
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BoxSpace

Make = Callable[..., Any]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes samplers, which are closed in the end."""
    made: list[Any] = []

    def start(sampler: Any, method: str = "fork", **kwargs: Any) -> Any:
        if method not in multiprocessing.get_all_start_methods():
            pytest.skip(f"this system does not start processes by {method}")
        with warnings.catch_warnings():
            # Python 3.12 warns of forking beside other threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            kwargs = {"n_workers": 2, "n_buffers": 3, **kwargs}
            context = multiprocessing.get_context(method)
            made.append(MultiprocessingSampler(sampler, ctx=context, **kwargs))
        return made[-1]

    yield start
    for sampler in made:
        sampler.close()


def steps(count: int = 50, seed: int = 0) -> Any:
    return StepSampler(numbered(0, count), 4, seed=seed)


class FaultyBatch(BatchBase[Any, Any, Any, Any, Any]):
    """Raises for some positions, or dies."""

    def __init__(self, action: Callable[[], Any]) -> None:
        super().__init__(BoxSpace(B, 0, 100, np.int64, shape=()))
        self.action = action

    @override
    def __len__(self) -> int:
        return 40

    @override
    def get_at(self, idx: Any) -> Any:
        if 7 in np.atleast_1d(idx):
            self.action()
        return np.asarray(idx)


def boom() -> None:
    raise KeyError("boom")


class UnpicklableError(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def boom_unpicklable() -> None:
    raise UnpicklableError(1, 2)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("shared_memory", [False, True])
def test_everything_is_served(make: Make, method: str, shared_memory: bool) -> None:
    sampler = make(steps(), method, shared_memory=shared_memory)
    assert sampler.sampled_space.contains(sampler.sample())
    for _ in range(10):
        data, metadata = sampler.sample_with_metadata()
        assert sampler.sampled_metadata_space.contains(metadata)
        assert data["x"][:, 0].tolist() == metadata["id"].tolist()
        data["x"][0] = 0  # results can be written to
    assert sampler.sample_flat().shape == (4, 3)
    assert sampler.sample_flat_with_metadata()[0].shape == (4, 3)
    everything = list(range(50))
    assert sorted(x for b in sampler for x in b["x"][:, 0].tolist()) == everything
    pairs = list(sampler.epoch_iter_with_metadata())
    assert [len(metadata["id"]) for _, metadata in pairs] == [4] * 12 + [2]
    assert sorted(x for _, metadata in pairs for x in metadata["id"].tolist()) == everything
    assert sorted(x for flat in sampler.epoch_flat_iter() for x in flat[:, 1]) == everything
    assert len(list(sampler.epoch_flat_iter_with_metadata())) == 13


def test_it_looks_like_the_sampler(make: Make) -> None:
    sampler = make(steps())
    assert len(sampler) == 50
    assert sampler.batch_size == 4
    assert sampler.data is sampler.sampler.data
    assert sampler.get_at(3)["x"].tolist() == [3, -3]
    assert sampler.get_flattened_at([3]).tolist() == [[0, 3, -3]]
    assert sampler.get_at_with_metadata(3)[1]["id"] == 3
    assert sampler.get_flattened_at_with_metadata(3)[1]["id"] == 3
    assert sampler.sample_index().shape == (4,)
    assert not sampler.is_mutable


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_drawn_does_not_depend_on_the_workers(make: Make, count: int) -> None:
    reference, other = make(steps(seed=3)), make(steps(seed=3), n_workers=count, n_buffers=1)
    for _ in range(2):
        for _ in range(12):
            assert reference.sample()["x"].tolist() == other.sample()["x"].tolist()
        for a, b in zip(reference, other, strict=True):
            assert a["x"].tolist() == b["x"].tolist()
        reference.manual_seed(8)
        other.manual_seed(8)


def test_batches_and_seeds_differ(make: Make) -> None:
    sampler, other = make(steps(10**4, seed=0)), make(steps(10**4, seed=1))
    drawn = [tuple(sampler.sample()["x"][:, 0]) for _ in range(30)]
    drawn += [tuple(other.sample()["x"][:, 0]) for _ in range(30)]
    assert len(set(drawn)) == 60


def test_passes_side_by_side(make: Make) -> None:
    sampler = make(steps())
    first, second = iter(sampler), iter(sampler)
    for _ in range(13):
        next(first)
        sampler.sample()
        next(second)
    assert next(first, None) is None
    abandoned = iter(sampler)
    next(abandoned)
    del abandoned
    assert len(list(sampler)) == 13
    # What an abandoned pass still had coming is dropped on arrival.
    assert len(sampler._pool._results) + len(sampler._pool._forgotten) <= 2 * 4


@pytest.mark.parametrize("action", [boom, boom_unpicklable])
def test_an_exception_reaches_the_call_whose_batch_it_was(make: Make, action: Any) -> None:
    sampler = make(StepSampler(FaultyBatch(action), 40, seed=0))
    expected = KeyError if action is boom else RuntimeError
    with pytest.raises(expected) as caught:
        list(sampler)
    assert "in a worker process" in str(caught.value.__cause__)
    assert action.__name__ in str(caught.value.__cause__)
    small = make(StepSampler(FaultyBatch(action), 1, seed=0))
    good = bad = 0
    for _ in range(200):
        try:
            small.sample()
            good += 1
        except expected:
            bad += 1
    assert good
    assert bad


def test_nothing_to_draw_from(make: Make) -> None:
    sampler = make(StepSampler(numbered(0, 0), 4))
    with pytest.raises(SampleError):
        sampler.sample()
    assert list(sampler) == []


def test_a_worker_that_dies_is_no_end_of_the_data(make: Make) -> None:
    sampler = make(StepSampler(FaultyBatch(lambda: os._exit(3)), 40, seed=0))
    with pytest.raises(WorkerDiedError, match="exit code 3"):
        list(sampler)
    with pytest.raises(RuntimeError):
        sampler.sample()
    sampler.close()


def test_a_killed_worker(make: Make) -> None:
    sampler = make(steps())
    sampler.sample()
    for process, _ in sampler._pool._workers:
        os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError):
        [sampler.sample() for _ in range(20)]


def test_closing(make: Make) -> None:
    sampler = make(steps())
    sampler.sample()
    processes = [process for process, _ in sampler._pool._workers]
    under_way = iter(sampler)
    next(under_way)
    sampler.close()
    sampler.close()
    assert not any(process.is_alive() for process in processes)
    with pytest.raises(StorageClosedError):
        sampler.sample()
    with pytest.raises(StorageClosedError):
        list(under_way)
    assert sampler.get_at(3)["x"].tolist() == [3, -3]


def test_closing_does_not_wait_for_results_nobody_wants(make: Make) -> None:
    slow = make(StepSampler(FaultyBatch(lambda: time.sleep(0.05)), 40, seed=0), n_buffers=40)
    next(iter(slow))
    start = time.monotonic()
    slow.close()
    assert time.monotonic() - start < 1


def test_large_batches_do_not_block(make: Make) -> None:
    # Each way more than a pipe holds, while nobody reads at the other end.
    space = BoxSpace(B, 0, 1, np.float64, shape=(64,))
    from unienv_data.testing.batches import ArrayBatch

    data = ArrayBatch(space, np.zeros((60_000, 64)))
    sampler = make(StepSampler(data, 20_000, seed=0), n_buffers=8)
    assert sum(map(len, sampler)) == 60_000
    assert sampler.sample().shape == (20_000, 64)


def test_a_sampler_with_a_pass_of_its_own(make: Make) -> None:
    class Backwards(StepSampler[Any, Any, Any, Any, Any]):
        @override
        def epoch_iter(self) -> Iterator[Any]:
            return (self.get_at([row]) for row in reversed(range(len(self))))

    sampler = make(Backwards(numbered(0, 3), 2))
    assert [batch["x"][0, 0] for batch in sampler] == [2, 1, 0]


def test_a_buffer_in_files(make: Make, tmp_path: Path) -> None:
    from unienv_data import ReplayBuffer
    from unienv_data.storages.parquet import ParquetStorage

    source = numbered(0, 100)
    buffer = ReplayBuffer.create(
        ParquetStorage, source.single_space, cache_path=tmp_path / "buffer", piece_size=16
    )
    buffer.extend(source.data)
    buffer.close()
    reader = ReplayBuffer.load_from(tmp_path / "buffer", backend=B)
    for method in ("fork", "spawn"):
        sampler = make(StepSampler(reader, 8, seed=0), method)
        found = sorted(x for batch in sampler for x in batch["x"][:, 0].tolist())
        assert found == list(range(100))
        sampler.close()
    reader.close()


def test_a_forked_child_is_refused(make: Make) -> None:
    sampler = make(steps())
    context: Any = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def child() -> None:
        try:
            sampler.sample()
        except StorageClosedError as error:
            theirs.send(str(error))
        sampler.close()

    process = context.Process(target=child)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    process.join(30)
    assert ours.poll(1)
    assert "forked child" in ours.recv()
    ours.close()
    theirs.close()
    assert sampler.sample()["x"].shape == (4, 2)


def test_a_program_that_never_closes_ends() -> None:
    program = (
        "from unienv_data.samplers import *\n"
        "from unienv_data.testing.batches import numbered\n"
        "import multiprocessing\n"
        "for daemon in (True, False):\n"
        "    context = multiprocessing.get_context('fork')\n"
        "    steps = StepSampler(numbered(0, 9), 4)\n"
        "    s = MultiprocessingSampler(steps, ctx=context, daemon=daemon)\n"
        "    print(len(s.sample()['x']))\n"
        "    globals()[f'kept_{daemon}'] = s\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.split() == ["4", "4"]
    assert result.stderr == ""


@pytest.mark.parametrize("arguments", [{"n_workers": 0}, {"n_buffers": 0}, {"doze_time": 0}])
def test_numbers_that_are_not_positive(arguments: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        MultiprocessingSampler(steps(), **arguments)
