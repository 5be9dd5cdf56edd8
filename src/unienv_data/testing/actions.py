"""What the attacks do to a storage or a buffer, and what each action does to the obvious model.

An action is a plain list, so that it goes through a pipe: ``["extend", rows, seed]``,
``["append", rows, seed, row]``, ``["set", rows, seed]``, ``["shrink", count]``, ``["flush"]``,
``["clear"]``, ``["dumps", path]`` for storages; `BufferModel` says those of buffers.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.oracle import Oracle, take
from unienv_data.testing.strategies import batch_of, box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, DictSpace, TextSpace

__all__ = [
    "BUFFER_SPACE",
    "SPACE",
    "Action",
    "BufferModel",
    "batch",
    "choose",
    "choose_for_buffer",
    "perform",
    "perform_on_buffer",
    "replay",
]

SPACE = DictSpace(
    B,
    {
        "x": box("float32", (5,)),
        "t": TextSpace(B, 12),
        "u": box("uint8", ()),
        "b": BinarySpace(B, (2,)),
    },
)
BUFFER_SPACE = DictSpace(B, {"x": box("int64", (3,)), "t": TextSpace(B, 12)})

Action = list[Any]


def batch(seed: int, count: int) -> Any:
    """Random rows of `SPACE`."""
    return batch_of(SPACE, count, np.random.default_rng(seed))


# -- storages --------------------------------------------------------------------------------


def choose(rng: random.Random, length: int, capacity: int | None) -> list[Action]:
    """The next actions on a storage of `length` rows: one, or an append a row."""
    chance, seed = rng.random(), rng.randrange(1 << 30)
    if capacity is not None:
        if chance < 0.85:
            rows = [rng.randrange(capacity) for _ in range(rng.randrange(1, 30))]
            return [["set", rows, seed]]
        return [["flush"]]
    if chance < 0.35 or length == 0:
        return [["extend", rng.randrange(1, 40), seed]]
    if chance < 0.6:
        count = rng.randrange(1, 10)
        return [["append", count, seed, row] for row in range(count)]
    if chance < 0.8:
        return [["set", [rng.randrange(length) for _ in range(rng.randrange(1, 12))], seed]]
    if chance < 0.87:
        return [["shrink", rng.randrange(1, length + 1) if rng.random() < 0.3 else 1]]
    return [["flush"] if chance < 0.99 else ["clear"]]


def replay(oracle: Oracle, action: Action) -> None:
    """Does an action to the obvious storage."""
    kind = action[0]
    if kind == "extend":
        start = len(oracle)
        oracle.grow(action[1])
        oracle.set_rows(list(range(start, start + action[1])), batch(action[2], action[1]))
    elif kind == "append":
        start = len(oracle)
        oracle.grow(1)
        oracle.set_rows([start], take(batch(action[2], action[1]), [action[3]]))
    elif kind == "set":
        oracle.set_rows(action[1], batch(action[2], len(action[1])))
    elif kind == "shrink":
        oracle.shrink(action[1])
    elif kind == "clear":
        oracle.shrink(len(oracle))


def perform(storage: ParquetStorage, action: Action) -> None:
    """Does an action to a storage."""
    kind = action[0]
    if kind == "append":
        storage.append_row(len(storage), take(batch(action[2], action[1]), action[3]))
    elif kind == "extend":
        storage.extend_length(action[1])
        rows = slice(len(storage) - action[1], len(storage))
        storage.set(rows, batch(action[2], action[1]))
    elif kind == "set":
        storage.set(np.array(action[1]), batch(action[2], len(action[1])))
    elif kind == "shrink":
        storage.shrink_length(action[1])
    elif kind == "dumps":
        storage.dumps(action[1])
    else:
        getattr(storage, kind)()


# -- buffers ---------------------------------------------------------------------------------


class BufferModel:
    """A replay buffer as a list of row numbers and a list of closed segments.

    Actions: ``["append", number]``, ``["extend", numbers]`` and ``["commit", numbers]`` (each a
    segment of its own), ``["end"]``, ``["set", index, number]``, ``["flush"]``, ``["clear"]``,
    ``["dumps", path]``.
    """

    def __init__(self, capacity: int | None) -> None:
        self.capacity = capacity
        self.rows: list[int] = []
        self.segments: list[tuple[int, int]] = []
        self.open: int | None = None
        """First row of the segment that single appends go to."""

    def add(self, numbers: list[int]) -> None:
        """Adds rows; a full ring gives up its oldest."""
        self.rows += numbers
        if self.capacity is not None and len(self.rows) > self.capacity:
            self.give_up(len(self.rows) - self.capacity)

    def give_up(self, count: int) -> None:
        """Drops the oldest rows."""
        self.rows = self.rows[count:]
        self.segments = [(max(a - count, 0), b - count) for a, b in self.segments if b > count]
        if self.open is not None:
            self.open = max(self.open - count, 0)

    def close_segment(self, length: int) -> None:
        """Closes a segment of the newest `length` rows."""
        end = len(self.rows)
        self.segments.append((max(end - length, 0), end))

    def replay(self, action: Action) -> None:
        """Does an action."""
        kind = action[0]
        if kind == "append":
            if self.open is None:
                self.open = len(self.rows)
            self.add([action[1]])
        elif kind in ("extend", "commit"):
            self.add(action[1])
            self.close_segment(len(action[1]))
        elif kind == "end" and self.open is not None:
            self.close_segment(len(self.rows) - self.open)
            self.open = None
        elif kind == "set":
            self.rows[action[1]] = action[2]
        elif kind == "clear":
            self.rows, self.segments, self.open = [], [], None


def choose_for_buffer(rng: random.Random, model: BufferModel, fresh: int) -> list[Action]:
    """The next actions on a buffer; `fresh` is the first row number not used yet."""
    if model.open is not None:
        return [["end"]]
    chance = rng.random()
    longest = min(model.capacity or 9, 9)
    numbers = list(range(fresh, fresh + rng.randrange(1, longest)))
    if chance < 0.35 or not model.rows:
        return [*(["append", number] for number in numbers), ["end"]]
    if chance < 0.6:
        return [["extend", numbers]]
    if chance < 0.75:
        return [["commit", numbers]]
    if chance < 0.87:
        return [["set", rng.randrange(len(model.rows)), fresh]]
    return [["flush"] if chance < 0.97 else ["clear"]]


def _sample(number: int) -> Any:
    return {"x": np.array([number, 2 * number, -number]), "t": f"row {number}"}


def _samples(numbers: list[int]) -> Any:
    x = np.array(numbers, dtype=np.int64)
    return {"x": np.stack([x, 2 * x, -x], axis=1), "t": [f"row {number}" for number in numbers]}


def numbers_in(samples: Any) -> list[int]:
    """The row numbers of samples read; rows of which parts do not belong together are refused."""
    rows: list[int] = samples["x"][:, 0].tolist()
    expected = _samples(rows)
    if not np.array_equal(samples["x"], expected["x"]):
        raise AssertionError(f"torn rows: {samples['x'].tolist()}")
    texts = samples["t"].tolist()
    # A row of a bounded storage that was never set is number 0 without a text.
    wrong = [t for t, e, n in zip(texts, expected["t"], rows, strict=True) if n and t != e]
    if wrong:
        raise AssertionError(f"texts of other rows: {wrong}")
    return rows


def perform_on_buffer(buffer: ReplayBuffer[Any, Any, Any, Any, Any], action: Action) -> None:
    """Does an action to a buffer."""
    kind = action[0]
    if kind == "append":
        buffer.append(_sample(action[1]))
    elif kind == "extend":
        buffer.extend(_samples(action[1]))
    elif kind == "commit":
        writer = buffer.open_segment_writer()
        for number in action[1]:
            writer.append(_sample(number))
        buffer.commit_segment(writer)
    elif kind == "end":
        buffer.mark_segment_end()
    elif kind == "set":
        buffer.set_at(action[1], _sample(action[2]))
    elif kind == "dumps":
        buffer.dumps(action[1])
    else:
        getattr(buffer, kind)()
