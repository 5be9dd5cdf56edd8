"""Kills a writer at random instants and checks what it left.

A child process works through random actions on a `ParquetStorage` and tells, through a pipe, what
it is about to do and when the call has returned. The parent kills it with SIGKILL, replays the
acknowledged actions on the obvious storage, opens the directory read-only and for writing, and
compares: the rows are those acknowledged, plus possibly the action in flight, whole.

Stores into mapped memory are no system calls, so random instants reach places that stopping at
every system call does not. `python -m unienv_data.testing.crash SECONDS [SEED]` runs it for longer.
"""

from __future__ import annotations

import copy
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.oracle import Oracle, assert_batches_equal, take
from unienv_data.testing.strategies import batch_of, box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, DictSpace, TextSpace

__all__ = ["KillReport", "kill_repeatedly"]

SPACE = DictSpace(
    B,
    {
        "x": box("float32", (5,)),
        "t": TextSpace(B, 12),
        "u": box("uint8", ()),
        "b": BinarySpace(B, (2,)),
    },
)

Action = list[Any]
"""``["extend", rows, seed]``, ``["append", rows, seed, row]``, ``["set", rows, seed]``, ..."""


@dataclass
class KillReport:
    """What a run found."""

    kills: int = 0
    in_flight: int = 0
    """Kills in the middle of an action."""
    finished: int = 0
    """Of these, actions that had taken effect as a whole."""
    faults: list[str] = field(default_factory=list)
    """One line each, with the seed that repeats it."""


def _batch(seed: int, count: int) -> Any:
    return batch_of(SPACE, count, np.random.default_rng(seed))


def _choose(rng: random.Random, length: int, capacity: int | None) -> Action:
    chance, seed = rng.random(), rng.randrange(1 << 30)
    if capacity is not None:
        if chance < 0.85:
            return ["set", [rng.randrange(capacity) for _ in range(rng.randrange(1, 30))], seed]
        return ["flush"]
    if chance < 0.35 or length == 0:
        return ["extend", rng.randrange(1, 40), seed]
    if chance < 0.6:
        return ["append", rng.randrange(1, 10), seed]
    if chance < 0.8:
        return ["set", [rng.randrange(length) for _ in range(rng.randrange(1, 12))], seed]
    if chance < 0.87:
        return ["shrink", rng.randrange(1, length + 1) if rng.random() < 0.3 else 1]
    return ["flush"] if chance < 0.99 else ["clear"]


def _replay(oracle: Oracle, action: Action) -> None:
    """What an action does to the rows."""
    kind = action[0]
    if kind == "extend":
        start = len(oracle)
        oracle.grow(action[1])
        oracle.set_rows(list(range(start, start + action[1])), _batch(action[2], action[1]))
    elif kind == "append":
        start = len(oracle)
        oracle.grow(1)
        oracle.set_rows([start], take(_batch(action[2], action[1]), [action[3]]))
    elif kind == "set":
        oracle.set_rows(action[1], _batch(action[2], len(action[1])))
    elif kind == "shrink":
        oracle.shrink(action[1])
    elif kind == "clear":
        oracle.shrink(len(oracle))


def _work(path: Path, pipe: int, seed: int, capacity: int | None, options: dict[str, Any]) -> None:
    """The child: acts until it is killed."""
    rng = random.Random(seed)
    storage = ParquetStorage.load_from(path, SPACE, read_only=False, **options)

    def announced(action: Action, call: Any, *arguments: Any) -> None:
        os.write(pipe, json.dumps(action).encode() + b"\n")
        call(*arguments)
        os.write(pipe, b"done\n")

    def extend(count: int, batch: Any) -> None:
        storage.extend_length(count)
        storage.set(slice(len(storage) - count, len(storage)), batch)

    while True:
        action = _choose(rng, len(storage), capacity)
        kind = action[0]
        if kind == "append":
            batch = _batch(action[2], action[1])
            for row in range(action[1]):
                sample = take(batch, row)
                announced([*action, row], storage.append_row, len(storage), sample)
        elif kind == "extend":
            announced(action, extend, action[1], _batch(action[2], action[1]))
        elif kind == "set":
            values = _batch(action[2], len(action[1]))
            announced(action, storage.set, np.array(action[1]), values)
        elif kind == "shrink":
            announced(action, storage.shrink_length, action[1])
        else:
            announced(action, getattr(storage, kind))


def _live(
    path: Path, seconds: float, seed: int, capacity: int | None, options: dict[str, Any]
) -> tuple[list[Action], Action | None]:
    """Runs a child for a while and kills it: the actions acknowledged, and the one in flight."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _work(path, writing, seed, capacity, options)
        finally:
            os._exit(1)
    os.close(writing)
    deadline, said = time.monotonic() + seconds, b""
    while (left := deadline - time.monotonic()) > 0:
        if select.select([reading], [], [], left)[0]:
            chunk = os.read(reading, 1 << 16)
            if not chunk:
                break
            said += chunk
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    while chunk := os.read(reading, 1 << 16):
        said += chunk
    os.close(reading)
    if os.WIFEXITED(status):
        raise AssertionError("the child failed instead of being killed")
    acknowledged: list[Action] = []
    pending: Action | None = None
    for line in said.split(b"\n")[:-1]:
        if line == b"done":
            if pending is not None:
                acknowledged.append(pending)
            pending = None
        else:
            pending = json.loads(line)
    return acknowledged, pending


def _check(path: Path, states: list[Oracle], options: dict[str, Any], *, clean: bool) -> Oracle:
    """Opens what was left, and says which of the states it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with ParquetStorage.load_from(path, SPACE) as reader:
            reader.get(...)
    storage = ParquetStorage.load_from(path, SPACE, read_only=False, **options)
    try:
        found = storage.get(...)
        for state in states:
            if len(state) == len(storage):
                try:
                    assert_batches_equal(found, state.all())
                except AssertionError:
                    continue
                return state
        raise AssertionError(
            f"{len(storage)} rows that are none of the states of {[len(s) for s in states]} rows"
        )
    finally:
        if clean:
            storage.close()
        else:
            storage._let_go(remove=False)  # the next life adopts the working set again


def kill_repeatedly(
    directory: Path, *, runs: int, seed: int, lives: int = 4, longest_s: float = 0.25
) -> KillReport:
    """Kills writers, several times on one storage each.

    Args:
        directory: Where storages are made; must exist.
        runs: Storages.
        seed: Start of the seeds; run ``n`` of a fault is repeated with ``seed + n``.
        lives: Kills a storage.
        longest_s: Longest life of a child, in seconds.
    """
    report = KillReport()
    for run in range(seed, seed + runs):
        rng = random.Random(run)
        capacity = rng.choice([None, None, 37])
        piece_size = rng.choice([1, 4, 8, 64])
        options = {
            "bank_bytes": rng.choice([None, None, 2000]),
            "durability": rng.choice(["process", "power"]),
        }
        path = directory / str(run)
        ParquetStorage.create(
            SPACE, cache_path=path, capacity=capacity, piece_size=piece_size
        ).close()
        oracle = Oracle(SPACE, capacity)
        try:
            for life in range(lives):
                seconds = rng.random() ** 2 * longest_s + 0.002
                done, pending = _live(path, seconds, run * lives + life, capacity, options)
                report.kills += 1
                for action in done:
                    _replay(oracle, action)
                states = [oracle]
                if pending is not None:
                    report.in_flight += 1
                    states.append(copy.deepcopy(oracle))
                    _replay(states[1], pending)
                oracle = _check(path, states, options, clean=rng.random() < 0.5)
                report.finished += oracle is not states[0]
        except Exception as error:  # noqa: BLE001 - reported with the seed that repeats it
            report.faults.append(
                f"seed {run}, capacity {capacity}, pieces of {piece_size}, {options}: "
                f"{type(error).__name__}: {error}"
            )
        shutil.rmtree(path, ignore_errors=True)
    return report


def main() -> None:
    """Runs for as long as asked and prints what it found."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    deadline, total = time.monotonic() + seconds, KillReport()
    with tempfile.TemporaryDirectory(prefix="unienv-crash-") as directory:
        while time.monotonic() < deadline:
            report = kill_repeatedly(Path(directory), runs=5, seed=seed)
            seed += 5
            total.kills += report.kills
            total.in_flight += report.in_flight
            total.finished += report.finished
            total.faults += report.faults
    print(  # noqa: T201 - a command
        f"{total.kills} kills, {total.in_flight} in the middle of a call, {total.finished} of them "
        f"after it took effect; {len(total.faults)} faults"
    )
    for fault in total.faults:
        print(fault)  # noqa: T201 - a command
    raise SystemExit(bool(total.faults))


if __name__ == "__main__":
    main()
