"""Readers beside the writer of a replay buffer: rows, position and segments are of one commit.

Each row carries a running number and the number of its segment. Whatever the writer appends,
flushes and clears meanwhile, the rows of a reader follow each other without a gap, and each
segment that it lists holds exactly the rows of one.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from unienv_data.errors import CommitConflictError
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.soak import SPACE, SoakReport, check_rows, rows_of_call, run_beside
from unienv_interface.backends.numpy import NumpyComputeBackend as B

__all__ = ["soak_buffer"]


class _Writer:
    def __init__(self, buffer: Any, seed: int) -> None:
        self.buffer = buffer
        self.rng = random.Random(seed)
        self.rows = 0
        self.segment = 0

    def step(self) -> None:
        """One call, or a run of appends."""
        chance = self.rng.random()
        if chance < 0.35:
            self.buffer.extend(self._batch(self.rng.randrange(1, 40)))
        elif chance < 0.7:
            batch = self._batch(self.rng.randrange(1, 25))
            for place in range(len(batch["row"])):
                self.buffer.append({name: batch[name][place] for name in batch})
                if self.rng.random() < 0.05:
                    self.buffer.flush()  # with a segment open
            self.buffer.mark_segment_end()
        elif chance < 0.95:
            self.buffer.flush()
        else:
            self.buffer.clear()

    def _batch(self, count: int) -> dict[str, Any]:
        first, self.rows = self.rows, self.rows + count
        self.segment += 1
        return rows_of_call(np.arange(first, first + count), self.segment)


def _check_snapshot(rng: random.Random, buffer: Any) -> int:
    """Reads a snapshot in several calls and gives the number of reads."""
    count = len(buffer)
    everything = np.arange(count)
    found = buffer.get_at(slice(0, count))
    if count == 0:
        return 1
    first = int(found["row"][0])
    segments = check_rows(first + everything, found)
    reads = 1
    for _ in range(rng.randrange(4)):
        some = np.array([rng.randrange(count) for _ in range(rng.randrange(1, 30))])
        again = check_rows(first + some, buffer.get_at(some))
        assert (again == segments[some]).all(), "two calls of one snapshot disagree"
        reads += 1
    for start, stop in buffer.get_segments():
        assert 0 <= start < stop <= count, (start, stop, count)
        assert len(set(segments[start:stop].tolist())) == 1, (start, stop, segments)
        assert start == 0 or segments[start - 1] != segments[start], (start, stop, segments)
        assert stop == count or segments[stop - 1] != segments[stop], (start, stop, segments)
    return reads


def _read(path: Path, seed: int, done: Path, least: int, options: dict[str, Any]) -> Any:
    rng = random.Random(seed)
    reads = conflicts = snapshots = listed = 0
    buffer: Any = None
    while reads < least or not done.exists():
        if buffer is None or rng.random() < 0.1:
            if buffer is not None:
                buffer.close()
            buffer = ReplayBuffer.load_from(path, backend=B, **options)
        else:
            buffer.refresh()
        snapshots += 1
        listed += len(buffer.get_segments())
        try:
            reads += _check_snapshot(rng, buffer)
        except CommitConflictError:
            conflicts += 1
    buffer.close()
    return {"snapshots": snapshots, "reads": reads, "conflicts": conflicts, "segments": listed}


def soak_buffer(
    directory: Path, *, calls: int, seed: int, readers: int = 2, reads: int = 100
) -> SoakReport:
    """Runs one writer and its readers on one buffer.

    Args:
        directory: Where the buffer is made; must exist.
        calls: Calls of the writer.
        seed: Decides every action of both.
        readers: Reader processes.
        reads: Least number of reads of each.
    """
    rng = random.Random(seed)
    capacity = rng.choice([None, 50, 137])
    piece_size = rng.choice([1, 8, 32])
    durability = rng.choice(["process", "power"])
    cache: dict[str, Any] = {"cache_dir": directory / f"cache-{seed}"}
    if rng.random() < 0.4:
        cache["bank_bytes"] = 20_000
    path = directory / f"buffer-{seed}"
    buffer = ReplayBuffer.create(
        ParquetStorage,
        SPACE,
        cache_path=path,
        capacity=capacity,
        maintain_segment_metadata=True,
        piece_size=piece_size,
        durability=durability,
    )
    buffer.close()

    def write() -> None:
        buffer = ReplayBuffer.load_from(path, backend=B, read_only=False, durability=durability)
        writer = _Writer(buffer, seed)
        for _ in range(calls):
            writer.step()
        buffer.close()

    def read(number: int, done: Path) -> Any:
        return _read(path, seed * 100 + number, done, reads, cache)

    _, results = run_beside(readers, read, write)
    report = SoakReport(calls=calls)
    for result in results:
        if "fault" in result:
            report.faults.append(
                f"seed {seed}, capacity {capacity}, pieces of {piece_size}, {durability}, "
                f"{cache}: {result['fault']}"
            )
            continue
        found = result["result"]
        report.reads += found["reads"]
        report.conflicts += found["conflicts"]
        report.snapshots += found["snapshots"]
    shutil.rmtree(path, ignore_errors=True)
    return report
