"""Readers beside a writer: every row that a reader sees belongs to one commit, whole.

The writer grows, overwrites, shrinks and clears a storage, and logs after each call which rows
there are. Reader processes open, refresh and read it all the while. Each row carries its own
number and the number of the call that wrote it, in every column, so that zeros, torn rows and
rows in the wrong place show at once; the parent then asks of each snapshot whether some state in
the log explains all that was read of it. `python -m unienv_data.testing.soak CALLS [SEED]` runs
it for longer. Nothing here measures time: writers count calls, readers count reads.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unienv_data.errors import CommitConflictError
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import DictSpace, TextSpace

__all__ = ["SPACE", "SoakReport", "check_rows", "rows_of_call", "run_beside", "soak"]

SPACE = DictSpace(
    B,
    {
        "row": box("int64", ()),
        "call": box("int64", ()),
        "wide": box("int64", (17,)),
        "text": TextSpace(B, 40),
    },
)

_MOST_ROWS = 400
_DONE = "done"


@dataclass
class SoakReport:
    """What a run found."""

    calls: int = 0
    commits: int = 0
    snapshots: int = 0
    """Opens and refreshes that moved a reader."""
    reads: int = 0
    conflicts: int = 0
    """Reads that were refused because the snapshot's files were replaced."""
    faults: list[str] = field(default_factory=list)

    def add(self, other: SoakReport) -> None:
        """Adds the counts of another run."""
        self.calls += other.calls
        self.commits += other.commits
        self.snapshots += other.snapshots
        self.reads += other.reads
        self.conflicts += other.conflicts
        self.faults += other.faults


def rows_of_call(rows: NDArray[np.int64], call: int) -> dict[str, Any]:
    """Samples for these rows, as call number `call` writes them."""
    wide = rows[:, None] * 1000003 + call * 7919 + np.arange(17)
    text = np.array([f"row {row} of call {call}" for row in rows.tolist()], dtype=object)
    return {"row": rows, "call": np.full(len(rows), call), "wide": wide, "text": text}


def check_rows(rows: NDArray[np.int64], found: dict[str, Any]) -> NDArray[np.int64]:
    """Gives the call that wrote each row.

    Raises:
        AssertionError: A row is not wholly of one call, or is another row.
    """
    calls: NDArray[np.int64] = found["call"]
    for place, (row, call) in enumerate(zip(rows.tolist(), calls.tolist(), strict=True)):
        wide = row * 1000003 + call * 7919 + np.arange(17)
        if (
            found["row"][place] != row
            or found["text"][place] != f"row {row} of call {call}"
            or not np.array_equal(found["wide"][place], wide)
        ):
            got = {name: found[name][place] for name in found}
            raise AssertionError(f"row {row} reads {got}")
    return calls


# -- processes -------------------------------------------------------------------------------


def run_beside(readers: int, read: Callable[[int, Path], Any], write: Callable[[], Any]) -> Any:
    """Runs `read(number, done)` in forked children while this process runs `write()`.

    Args:
        readers: Number of children.
        read: Must return JSON data once the file `done` exists and it has read enough.
        write: The writer.

    Returns:
        What `write` returned, and a list of what each reader returned.
    """
    with tempfile.TemporaryDirectory(prefix="unienv-soak-") as scratch:
        done = Path(scratch) / _DONE
        children = []
        for number in range(readers):
            child = os.fork()
            if child == 0:
                try:
                    try:
                        result = {"result": read(number, done)}
                    except BaseException:  # noqa: BLE001 - told to the parent
                        result = {"fault": traceback.format_exc()}
                    (Path(scratch) / str(number)).write_text(json.dumps(result))
                finally:
                    os._exit(0)
            children.append(child)
        try:
            written = write()
        finally:
            done.touch()
            for child in children:
                os.waitpid(child, 0)
        results = [json.loads((Path(scratch) / str(n)).read_text()) for n in range(readers)]
    return written, results


# -- the writer ------------------------------------------------------------------------------


@dataclass
class _State:
    """Rows after a call, and between which commits a reader may see them."""

    first: int
    last: int
    calls: list[NDArray[np.int64]]
    """Call that wrote each row: now, and as it was at each step back to the last flush.

    Rows that a commit counts show what they were when last flushed, rows that get counted
    between two flushes what they were at that moment.
    """


class _Writer:
    def __init__(self, storage: ParquetStorage, seed: int, bounded: bool, lazy: bool) -> None:
        self.storage = storage
        self.rng = random.Random(seed)
        self.bounded = bounded
        self.lazy = lazy  # overwrites may wait for a later flush
        self.call = 0
        self.calls = np.zeros(len(storage), np.int64)
        self.since_flush: list[NDArray[np.int64]] = []
        self.log: list[_State] = []
        self.first = self.generation
        self._note()

    @property
    def generation(self) -> int:
        writer = self.storage._writer
        assert writer is not None
        return writer.manifest.generation

    def _note(self) -> None:
        """Logs the rows: commits from the first of this call on may show them."""
        now = self.generation
        if self.log:
            self.log[-1].last = now
        self.since_flush.append(self.calls.copy())
        self.log.append(_State(self.first, now, self.since_flush.copy()))

    def step(self) -> None:
        """One call, or one call and a flush."""
        self.first = self.generation + 1
        self.call += 1
        length, chance = len(self.calls), self.rng.random()
        if self.bounded:
            chance = 0.4 + 0.35 * chance if self.call > 1 else 0.4
        if length == 0 or (chance < 0.35 and length < _MOST_ROWS):
            self._grow(self.rng.randrange(1, 60))
        elif chance < 0.55:
            self._overwrite(np.arange(length))
        elif chance < 0.75:
            count = self.rng.randrange(1, length + 1)
            self._overwrite(np.array(self.rng.sample(range(length), count)))
        elif chance < 0.85:
            self._shrink(self.rng.randrange(1, length + 1))
        elif chance < 0.88:
            self._shrink(length)
        else:
            self._flush()
        self._note()

    def _grow(self, count: int) -> None:
        start = len(self.calls)
        rows = np.arange(start, start + count)
        batch = rows_of_call(rows, self.call)
        if count < 20:
            for place, row in enumerate(rows.tolist()):
                self.storage.append_row(row, {name: batch[name][place] for name in batch})
        else:
            self.storage.extend_length(count)
            self.storage.set(slice(start, start + count), batch)
        self.calls = np.concatenate([self.calls, np.full(count, self.call)])
        if self.rng.random() < 0.4:
            self._flush()

    def _overwrite(self, rows: NDArray[np.int64]) -> None:
        self.storage.set(rows, rows_of_call(rows, self.call))
        self.calls[rows] = self.call
        if not self.lazy or self.rng.random() < 0.7:
            self._flush()

    def _shrink(self, count: int) -> None:
        if self.lazy:
            self._flush()  # one thing at a time: the cut piece is flushed by the call itself
        if count == len(self.calls):
            self.storage.clear()
        else:
            self.storage.shrink_length(count)
        self.calls = self.calls[:-count]
        self.since_flush = []

    def _flush(self) -> None:
        # Background commits may have counted more rows before the flush gets to it.
        self._note()
        self.storage.flush()
        self.since_flush = []


# -- a reader --------------------------------------------------------------------------------


def _read(path: Path, seed: int, done: Path, least: int, options: dict[str, Any]) -> Any:
    """Reads until the writer is done: snapshots as [generation, rows, {row: call}]."""
    rng = random.Random(seed)
    snapshots: list[Any] = []
    reads = conflicts = 0
    reader: ParquetStorage | None = None
    while reads < least or not done.exists():
        if reader is None or rng.random() < 0.1:
            if reader is not None:
                reader.close()
            reader = ParquetStorage.load_from(path, SPACE, **options)
        else:
            reader.refresh()
        half = reader._reader
        assert half is not None
        seen: dict[int, int] = {}
        length = len(reader)
        snapshots.append([half.manifest.generation, length, seen])
        for _ in range(rng.randrange(1, 8)):
            rows = _some_rows(rng, length)
            try:
                found = _get(rng, reader, rows)
            except CommitConflictError:
                conflicts += 1
                if rng.random() < 0.5:
                    break
                continue
            reads += 1
            if found is None:
                continue
            calls = check_rows(rows, found)
            for row, call in zip(rows.tolist(), calls.tolist(), strict=True):
                if seen.setdefault(row, call) != call:
                    raise AssertionError(
                        f"row {row} was of call {seen[row]} and is of call {call} in one snapshot"
                    )
    if reader is not None:
        reader.close()
    return {"snapshots": snapshots, "reads": reads, "conflicts": conflicts}


def _some_rows(rng: random.Random, length: int) -> NDArray[np.int64]:
    chance = rng.random()
    if chance < 0.4 or length == 0:
        return np.arange(length)
    if chance < 0.7:
        start = rng.randrange(length)
        return np.arange(start, rng.randrange(start, length) + 1)
    return np.array([rng.randrange(length) for _ in range(rng.randrange(1, 40))])


def _get(rng: random.Random, reader: ParquetStorage, rows: NDArray[np.int64]) -> Any:
    if rng.random() < 0.1:  # a view of one column decodes nothing else
        texts = reader.get_column("text").get(rows)
        for row, text in zip(rows.tolist(), texts, strict=True):
            assert text.startswith(f"row {row} of call "), (row, text)
        return None
    if len(rows) and rng.random() < 0.5 and (np.diff(rows) == 1).all():
        return reader.get(slice(int(rows[0]), int(rows[-1]) + 1))
    return reader.get(rows)


# -- both ------------------------------------------------------------------------------------


def _explained(states: list[_State], snapshot: Any) -> bool:
    """Whether one state holds every row that was seen in a snapshot."""
    generation, length, seen = snapshot
    rows = np.array([int(row) for row in seen], dtype=np.int64)
    calls = np.array(list(seen.values()), dtype=np.int64)
    for state in states:
        if state.first <= generation <= state.last and length <= len(state.calls[-1]):
            explained = np.zeros(len(rows), bool)
            for was in state.calls:
                there = rows < len(was)
                explained[there] |= was[rows[there]] == calls[there]
            if explained.all():
                return True
    return False


def soak(
    directory: Path, *, calls: int, seed: int, readers: int = 2, reads: int = 100
) -> SoakReport:
    """Runs one writer and its readers on one storage.

    Args:
        directory: Where the storage is made; must exist.
        calls: Calls of the writer.
        seed: Decides every action of both.
        readers: Reader processes.
        reads: Least number of reads of each.
    """
    rng = random.Random(seed)
    bounded = rng.random() < 0.3
    piece_size = rng.choice([1, 5, 16, 64])
    durability = rng.choice(["process", "process", "power"])
    lazy = rng.random() < 0.5
    cache: dict[str, Any] = {} if rng.random() < 0.5 else {"cache_dir": directory / f"cache-{seed}"}
    if rng.random() < 0.4:
        # Fewer rows than there are: pieces come and go all the time.
        cache |= {"bank_bytes": 20_000, "cache_dir": directory / f"cache-{seed}"}
    path = directory / f"storage-{seed}"
    capacity = rng.randrange(2, _MOST_ROWS) if bounded else None
    with ParquetStorage.create(
        SPACE, cache_path=path, piece_size=piece_size, capacity=capacity
    ) as storage:
        if capacity is not None:
            storage.set(slice(0, capacity), rows_of_call(np.arange(capacity), 0))
    report = SoakReport()

    def write() -> list[_State]:
        storage = ParquetStorage.load_from(path, SPACE, read_only=False, durability=durability)
        writer = _Writer(storage, seed, bounded, lazy)
        for call in range(calls):
            writer.step()
            if call == calls // 2:  # a second writer: nothing may depend on the first one's memory
                writer.first = writer.generation + 1
                writer._flush()
                writer._note()
                storage.close()
                storage = ParquetStorage.load_from(
                    path, SPACE, read_only=False, durability=durability
                )
                writer.storage = storage
        storage.close()
        report.commits = writer.log[-1].last
        writer.log[-1].last += 1000
        return writer.log

    def read(number: int, done: Path) -> Any:
        return _read(path, seed * 100 + number, done, reads, cache)

    facts = (
        f"seed {seed}, capacity {capacity}, pieces of {piece_size}, {durability}, lazy {lazy}, "
        f"{cache}"
    )
    states, results = run_beside(readers, read, write)
    report.calls = calls
    for result in results:
        if "fault" in result:
            report.faults.append(f"{facts}: {result['fault']}")
            continue
        found = result["result"]
        report.reads += found["reads"]
        report.conflicts += found["conflicts"]
        report.snapshots += len(found["snapshots"])
        for snapshot in found["snapshots"]:
            if not _explained(states, snapshot):
                report.faults.append(f"{facts}: no state explains the snapshot {snapshot}"[:2000])
                break
    shutil.rmtree(path, ignore_errors=True)
    return report


def main() -> None:
    """Runs as many calls as asked and prints what was found."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    total = SoakReport()
    with tempfile.TemporaryDirectory(prefix="unienv-soak-") as directory:
        while total.calls < calls:
            total.add(soak(Path(directory), calls=min(200, calls), seed=seed))
            seed += 1
    print(  # noqa: T201 - a command
        f"{total.calls} calls, {total.commits} commits, {total.snapshots} snapshots, "
        f"{total.reads} reads, {total.conflicts} refused; {len(total.faults)} faults"
    )
    for fault in total.faults:
        print(fault)  # noqa: T201 - a command
    raise SystemExit(bool(total.faults))


if __name__ == "__main__":
    main()
