"""Scripted work on a storage or a buffer, and how to look at what it left.

Row number ``n`` holds ``n`` in every column, so a row is described by one integer, and a row of
which only some columns were stored is told at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import DictSpace, TextSpace

__all__ = ["SPACE", "WORKLOADS", "Seen", "Workload", "rows_of"]

SPACE = DictSpace(B, {"x": box("float32", (3,)), "n": box("int64", ()), "t": TextSpace(B, 16)})

Seen = tuple[list[int], list[tuple[int, int]]]
"""Rows by their numbers, 0 for one never set, and closed segments."""


def _batch(rows: list[int]) -> dict[str, Any]:
    numbers = np.array(rows, np.int64)
    x = np.repeat(numbers[:, None], 3, axis=1).astype(np.float32)
    return {"x": x, "n": numbers, "t": [f"row {n}" if n else "" for n in rows]}


def _sample(row: int) -> dict[str, Any]:
    batch = _batch([row])
    return {"x": batch["x"][0], "n": batch["n"][0], "t": batch["t"][0]}


def rows_of(batch: Any) -> list[int]:
    """The numbers of rows.

    Raises:
        AssertionError: The columns of a row belong to different rows.
    """
    numbers = batch["n"].tolist()
    expected = _batch(numbers)
    assert np.array_equal(batch["x"], expected["x"]), f"torn rows: {batch}"
    assert list(batch["t"]) == expected["t"], f"torn rows: {batch}"
    return [int(number) for number in numbers]


Action = tuple[Any, ...]
"""``("append", row)``, ``("extend", rows)``, ``("set", places, rows)``, ``("flush",)``, ..."""


@dataclass(frozen=True)
class Workload:
    """A storage or buffer, and what is done with it.

    Attributes:
        name: For reports.
        actions: After `create`, one after the other.
        capacity: Of the storage.
        is_buffer: Whether a `ReplayBuffer` with segments is used.
        options: Further arguments of `create` and `load_from`.
    """

    name: str
    actions: tuple[Action, ...]
    capacity: int | None = None
    is_buffer: bool = False
    piece_size: int = 4
    options: dict[str, Any] = field(default_factory=dict)

    def create(self, root: Path) -> Any:
        """Makes it in ``root/data``."""
        if self.is_buffer:
            return ReplayBuffer.create(
                ParquetStorage,
                SPACE,
                cache_path=root / "data",
                capacity=self.capacity,
                piece_size=self.piece_size,
                maintain_segment_metadata=True,
                **self.options,
            )
        return ParquetStorage.create(
            SPACE,
            cache_path=root / "data",
            capacity=self.capacity,
            piece_size=self.piece_size,
            **self.options,
        )

    def open(self, path: Path, *, read_only: bool) -> Any:
        """Opens what is there; a dead writer's rows are no news here."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            if self.is_buffer:
                return ReplayBuffer.load_from(path, backend=B, read_only=read_only, **self.options)
            return ParquetStorage.load_from(path, SPACE, read_only=read_only, **self.options)

    def run(self, target: Any, action: Action, root: Path) -> None:
        """Does one action."""
        kind, *rest = action
        _ACTIONS[kind](self, target, root, *rest)

    def seen(self, target: Any) -> Seen:
        """What it shows."""
        if self.is_buffer:
            rows = rows_of(target.get_at(...)) if len(target) else []
            return rows, [(int(a), int(b)) for a, b in target.get_segments()]
        return rows_of(target.get(...)) if len(target) else [], []


def _append(work: Workload, target: Any, root: Path, row: int) -> None:
    if work.is_buffer:
        target.append(_sample(row))
    else:
        target.append_row(len(target), _sample(row))


def _extend(work: Workload, target: Any, root: Path, rows: list[int]) -> None:
    if work.is_buffer:
        target.extend(_batch(rows))
        return
    start = len(target)
    target.extend_length(len(rows))
    try:
        target.set(slice(start, start + len(rows)), _batch(rows))
    except BaseException:
        target.shrink_length(len(target) - start)
        raise


def _set(work: Workload, target: Any, root: Path, places: list[int], rows: list[int]) -> None:
    (target.set_at if work.is_buffer else target.set)(np.array(places), _batch(rows))


def _commit(work: Workload, target: Any, root: Path, rows: list[int]) -> None:
    writer = target.open_segment_writer()
    for row in rows:
        writer.append(_sample(row))
    target.commit_segment(writer)


def _dump(work: Workload, target: Any, root: Path, name: str) -> None:
    target.dumps(root / name)


_ACTIONS: dict[str, Callable[..., None]] = {
    "append": _append,
    "extend": _extend,
    "set": _set,
    "commit": _commit,
    "dump": _dump,
    "flush": lambda work, target, root: target.flush(),
    "end": lambda work, target, root: target.mark_segment_end(),
    "clear": lambda work, target, root: target.clear(),
    "shrink": lambda work, target, root, count: target.shrink_length(count),
    "close": lambda work, target, root: target.close(),
}


def _growth(first: int, count: int) -> tuple[Action, ...]:
    return tuple(("append", row) for row in range(first, first + count))


WORKLOADS = (
    Workload(
        "growing",
        (
            *_growth(1, 6),
            ("extend", [7, 8, 9, 10, 11]),
            ("set", [1, 2, 5], [101, 102, 103]),
            ("flush",),
            *_growth(12, 6),
            ("set", [0, 9, 9], [104, 105, 106]),
            ("append", 18),
            ("dump", "data"),
            ("extend", [19, 20, 21]),
            ("dump", "copy"),
            ("shrink", 4),
            *_growth(22, 5),
            ("dump", "copy"),
            ("clear",),
            *_growth(27, 6),
            ("close",),
        ),
    ),
    Workload(
        "growing, a small bank",
        (
            ("extend", list(range(1, 14))),
            ("set", [0, 5, 11], [101, 102, 103]),
            *_growth(14, 8),
            ("set", [2, 13], [104, 105]),
            ("flush",),
            ("extend", [22, 23, 24, 25, 26]),
            ("close",),
        ),
        options={"bank_bytes": 300},
    ),
    Workload(
        "bounded",
        (
            ("set", [0, 1, 2], [1, 2, 3]),
            ("flush",),
            ("set", [2, 7, 8], [4, 5, 6]),
            ("dump", "copy"),
            ("set", [0, 9], [7, 8]),
            ("flush",),
            ("set", [4], [9]),
            ("clear",),
            ("set", [1], [10]),
            ("close",),
        ),
        capacity=10,
    ),
    Workload(
        "growing buffer",
        (
            *_growth(1, 5),
            ("end",),
            ("extend", [6, 7, 8]),
            ("flush",),
            ("commit", [9, 10, 11, 12, 13]),
            ("set", [3, 6], [101, 102]),
            ("dump", "data"),
            *_growth(14, 3),
            ("end",),
            ("dump", "copy"),
            ("clear",),
            *_growth(17, 5),
            ("end",),
            ("dump", "copy"),
            ("close",),
        ),
        is_buffer=True,
    ),
    Workload(
        "ring",
        (
            *_growth(1, 5),
            ("end",),
            ("extend", [6, 7, 8]),
            ("flush",),
            ("commit", [9, 10, 11]),
            *_growth(12, 3),
            ("end",),
            ("dump", "data"),
            ("set", [0, 3], [101, 102]),
            ("extend", [15, 16, 17, 18]),
            ("dump", "copy"),
            ("clear",),
            *_growth(19, 3),
            ("end",),
            ("dump", "copy"),
            ("close",),
        ),
        capacity=7,
        is_buffer=True,
    ),
)
