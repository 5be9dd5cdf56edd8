"""Scripted lives of storages and buffers, and which states may be seen after a kill in them.

A scenario is a list of actions with the state after each of them. After a kill, a writable open
must show the state after the acknowledged actions, or the one after the action in flight; a full
ring may have given up rows for it. A read-only open shows committed rows, none older than the last
acknowledged flush.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import override

from unienv_data.errors import MissingStorageError
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.actions import (
    BUFFER_SPACE,
    SPACE,
    Action,
    BufferModel,
    batch,
    choose,
    choose_for_buffer,
    numbers_in,
    perform,
    perform_on_buffer,
    replay,
)
from unienv_data.testing.oracle import Oracle, assert_batches_equal, take
from unienv_data.testing.shim import Fault, Shim
from unienv_interface.backends.numpy import NumpyComputeBackend

__all__ = ["BufferScenario", "StorageScenario", "standard_scenarios"]

DATA, COPY = "data", "copy"
"""What a scenario makes below its directory: the data set, and a dump of it."""


def _options(scenario: StorageScenario | BufferScenario) -> dict[str, Any]:
    return {"bank_bytes": scenario.bank_bytes, "durability": scenario.durability}


@dataclass
class StorageScenario:
    """Actions on a `ParquetStorage`."""

    capacity: int | None
    piece_size: int
    steps: int
    seed: int
    bank_bytes: int | None = None
    durability: str = "process"
    actions: list[Action] = field(default_factory=list)
    states: list[Oracle] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        oracle = Oracle(SPACE, self.capacity)
        self.states.append(copy.deepcopy(oracle))
        while len(self.actions) < self.steps:
            chosen = choose(rng, len(oracle), self.capacity)
            if rng.random() < 0.1:
                chosen = [["dumps", rng.choice([DATA, COPY])]]
            for action in chosen:
                replay(oracle, action)
                self.actions.append(action)
                self.states.append(copy.deepcopy(oracle))

    @override
    def __str__(self) -> str:
        what = "growing" if self.capacity is None else f"bounded {self.capacity}"
        return f"storage {what}, pieces of {self.piece_size}, {self.durability}, seed {self.seed}"

    def prepare(self, root: Path) -> None:
        """Makes the data set, closed."""
        ParquetStorage.create(
            SPACE, cache_path=root / DATA, capacity=self.capacity, piece_size=self.piece_size
        ).close()

    def worker(self, root: Path, fault: Fault) -> tuple[str, dict[str, Any]]:
        """The function that lives the script under the shim, and its arguments."""
        actions = _placed(self.actions, root)
        arguments = {"root": str(root), "actions": actions, "options": _options(self)}
        return f"{__name__}:live_in_storage", {**arguments, "fault": vars(fault)}

    def opener(self, root: Path, fault: Fault) -> tuple[str, dict[str, Any]]:
        """The function that opens and closes the data set under the shim."""
        arguments = {"root": str(root), "actions": [], "options": _options(self)}
        return f"{__name__}:live_in_storage", {**arguments, "fault": vars(fault)}

    def check(self, root: Path, done: int) -> None:
        """Raises unless what was left after `done` acknowledged actions is right."""
        floor = _last_flush(self.actions, done)
        seen = self.states[floor : done + 2]
        with quiet(), ParquetStorage.load_from(root / DATA, SPACE) as reader:
            _check_rows_among(reader.get(...), len(reader), seen)
        self.check_dump(root, done)
        with ParquetStorage.load_from(
            root / DATA, SPACE, read_only=False, **_options(self)
        ) as storage:
            found = storage.get(...)
            state = _matching(found, len(storage), self.states[done : done + 2])
            if self.capacity is None:
                storage.append_row(len(storage), take(batch(1, 1), 0))
                state = copy.deepcopy(state)
                replay(state, ["append", 1, 1, 0])
        check_clean(root / DATA)
        with ParquetStorage.load_from(root / DATA, SPACE) as reader:
            _matching(reader.get(...), len(reader), [state])

    def check_dump(self, root: Path, done: int) -> None:
        """Raises unless the dump is missing or one of the states in which it was made."""
        made = [n for n, action in enumerate(self.actions) if action == ["dumps", COPY]]
        last = [n for n in made if n < done][-1:]
        flying = [n for n in made if n == done]
        try:
            with quiet(), ParquetStorage.load_from(root / COPY, SPACE) as reader:
                found, length = reader.get(...), len(reader)
        except MissingStorageError:
            if last:
                raise
            return
        _matching(found, length, [self.states[n + 1] for n in (*last, *flying)])


def _placed(actions: list[Action], root: Path) -> list[Action]:
    return [["dumps", str(root / a[1])] if a[0] == "dumps" else a for a in actions]


def _last_flush(actions: list[Action], done: int) -> int:
    """State after the last acknowledged action that commits everything."""
    kinds = ("flush", "dumps")
    return max([n + 1 for n in range(min(done, len(actions))) if actions[n][0] in kinds], default=0)


def _matching(found: Any, length: int, states: list[Oracle]) -> Oracle:
    for state in states:
        if len(state) == length:
            try:
                assert_batches_equal(found, state.all())
            except AssertionError:
                continue
            return state
    raise AssertionError(f"{length} rows that are none of {[len(state) for state in states]} rows")


def _check_rows_among(found: Any, length: int, states: list[Oracle]) -> None:
    """Each row is what it was in one of the states; no fewer rows than in the poorest of them."""
    lengths = [len(state) for state in states]
    if not min(lengths) <= length <= max(lengths):
        raise AssertionError(f"a reader sees {length} rows, the states have {lengths}")
    for row in range(length):
        sample = take(found, [row])
        for state in states:
            if row < len(state):
                try:
                    assert_batches_equal(sample, state.get_rows([row]))
                except AssertionError:
                    continue
                break
        else:
            raise AssertionError(f"a reader sees a row {row} that never was")


def live_in_storage(
    shim: Shim, root: str, actions: list[Action], options: dict[str, Any], fault: dict[str, Any]
) -> None:
    """The process that is attacked: opens for writing, acts, closes."""
    shim.arm(root, Fault(**fault))
    with quiet():
        storage = ParquetStorage.load_from(Path(root) / DATA, SPACE, read_only=False, **options)
        for action in actions:
            perform(storage, action)
            shim.say(action[0])
        storage.close()


@dataclass
class BufferScenario:
    """Actions on a `ReplayBuffer` over a `ParquetStorage`."""

    capacity: int | None
    piece_size: int
    steps: int
    seed: int
    bank_bytes: int | None = None
    durability: str = "process"
    actions: list[Action] = field(default_factory=list)
    states: list[BufferModel] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        model = BufferModel(self.capacity)
        self.states.append(copy.deepcopy(model))
        fresh = 1
        while len(self.actions) < self.steps:
            chosen = choose_for_buffer(rng, model, fresh)
            if rng.random() < 0.1 and model.open is None:
                chosen = [["dumps", rng.choice([DATA, COPY])]]
            for action in chosen:
                model.replay(action)
                self.actions.append(action)
                self.states.append(copy.deepcopy(model))
            fresh += 10

    @override
    def __str__(self) -> str:
        what = "growing" if self.capacity is None else f"ring {self.capacity}"
        return f"buffer {what}, pieces of {self.piece_size}, {self.durability}, seed {self.seed}"

    def prepare(self, root: Path) -> None:
        """Makes the data set, closed."""
        ReplayBuffer.create(
            ParquetStorage,
            BUFFER_SPACE,
            cache_path=str(root / DATA),
            capacity=self.capacity,
            piece_size=self.piece_size,
            maintain_segment_metadata=True,
        ).close()

    def worker(self, root: Path, fault: Fault) -> tuple[str, dict[str, Any]]:
        """See `StorageScenario`."""
        actions = _placed(self.actions, root)
        arguments = {"root": str(root), "actions": actions, "options": _options(self)}
        return f"{__name__}:live_in_buffer", {**arguments, "fault": vars(fault)}

    def opener(self, root: Path, fault: Fault) -> tuple[str, dict[str, Any]]:
        """See `StorageScenario`."""
        arguments = {"root": str(root), "actions": [], "options": _options(self)}
        return f"{__name__}:live_in_buffer", {**arguments, "fault": vars(fault)}

    def check(self, root: Path, done: int) -> None:
        """See `StorageScenario`."""
        floor = _last_flush(self.actions, done)
        with quiet():
            reader = load_buffer(root / DATA)
        rows = numbers_in(reader.get_at(...))
        reader.close()
        seen = [state.rows for state in self.states[floor : done + 2]]
        if self.capacity is None:
            _check_numbers_among(rows, seen)
        elif rows not in [*seen, *(cut.rows for cut in self._cuts(done))]:
            raise AssertionError(f"a reader sees {rows}, the states are {seen}")
        self.check_dump(root, done)
        allowed = [*self.states[done : done + 2], *self._cuts(done)]
        with quiet():
            buffer = load_buffer(root / DATA, read_only=False, **_options(self))
        state = (numbers_in(buffer.get_at(...)), buffer.get_segments())
        if state not in [(model.rows, model.segments) for model in allowed]:
            expected = [(model.rows, model.segments) for model in allowed[:2]]
            raise AssertionError(f"{state}, expected one of {expected}")
        after = BufferModel(self.capacity)
        after.rows, after.segments = state
        after.replay(["extend", [9999]])
        perform_on_buffer(buffer, ["extend", [9999]])
        buffer.close()
        check_clean(root / DATA)
        reader = load_buffer(root / DATA)
        found = (numbers_in(reader.get_at(...)), reader.get_segments())
        reader.close()
        if found != (after.rows, after.segments):
            raise AssertionError(f"after going on: {found}, expected {vars(after)}")

    def _cuts(self, done: int) -> list[BufferModel]:
        """States in which a full ring has made room for the action in flight."""
        if self.capacity is None or done >= len(self.actions):
            return []
        kind, *rest = self.actions[done]
        count = len(rest[0]) if kind in ("extend", "commit") else int(kind == "append")
        cuts = []
        for given_up in range(1, count + 1):
            model = copy.deepcopy(self.states[done])
            if len(model.rows) + given_up > self.capacity:
                model.give_up(len(model.rows) + given_up - self.capacity)
                cuts.append(model)
        return cuts

    def check_dump(self, root: Path, done: int) -> None:
        """See `StorageScenario`."""
        made = [n for n, action in enumerate(self.actions) if action == ["dumps", COPY]]
        last = [n for n in made if n < done][-1:]
        flying = [n for n in made if n == done]
        try:
            with quiet():
                reader = load_buffer(root / COPY)
        except MissingStorageError:
            if last:
                raise
            return
        found = (numbers_in(reader.get_at(...)), reader.get_segments())
        reader.close()
        expected = [self.states[n + 1] for n in (*last, *flying)]
        if found not in [(model.rows, model.segments) for model in expected]:
            raise AssertionError(f"the dump is {found}, expected {[vars(e) for e in expected]}")


def _check_numbers_among(rows: list[int], states: list[list[int]]) -> None:
    lengths = [len(state) for state in states]
    if not min(lengths) <= len(rows) <= max(lengths):
        raise AssertionError(f"a reader sees {len(rows)} rows, the states have {lengths}")
    for position, number in enumerate(rows):
        known = {state[position] for state in states if position < len(state)}
        if number not in known:
            raise AssertionError(f"a reader sees number {number} at {position}, not in {known}")


def load_buffer(path: Path, **options: Any) -> ReplayBuffer[Any, Any, Any, Any, Any]:
    """A buffer of a scenario, read-only by default."""
    loaded: ReplayBuffer[Any, Any, Any, Any, Any] = ReplayBuffer.load_from(
        path, backend=NumpyComputeBackend, **options
    )
    return loaded


def live_in_buffer(
    shim: Shim, root: str, actions: list[Action], options: dict[str, Any], fault: dict[str, Any]
) -> None:
    """See `live_in_storage`."""
    shim.arm(root, Fault(**fault))
    with quiet():
        buffer = load_buffer(Path(root) / DATA, read_only=False, **options)
        for action in actions:
            perform_on_buffer(buffer, action)
            shim.say(action[0])
        buffer.close()


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warning that a dead writer left rows: that is what is tried here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def check_clean(path: Path) -> None:
    """Raises when a closed data set holds anything but itself."""
    wrong = [
        str(found.relative_to(path))
        for found in path.rglob("*")
        if found.name.startswith((".", "_commit", "_work"))
    ]
    if wrong:
        raise AssertionError(f"a closed data set holds {wrong}")


def standard_scenarios(steps: int, seed: int = 0) -> list[StorageScenario | BufferScenario]:
    """One of each kind: growing and bounded, with and without syncs, with a tiny bank."""
    return [
        StorageScenario(None, 4, steps, seed),
        StorageScenario(None, 8, steps, seed + 1, durability="power"),
        StorageScenario(None, 4, steps, seed + 2, bank_bytes=2000),
        StorageScenario(37, 8, steps, seed + 3, durability="power"),
        BufferScenario(None, 4, steps, seed + 4, durability="power"),
        BufferScenario(11, 4, steps, seed + 5),
        BufferScenario(16, 4, steps, seed + 6, durability="power", bank_bytes=2000),
    ]
