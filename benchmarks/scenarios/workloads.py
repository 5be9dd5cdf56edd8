"""The rows that every store is given, the same for a seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Rows = dict[str, Any]
"""Columns by name; text as fixed-width numpy text or, in a batch, objects of `str`."""

COLUMNS: dict[str, list[tuple[str, str, tuple[int, ...]]]] = {
    "W1": [
        ("obs", "float32", (17,)),
        ("action", "float32", (6,)),
        ("reward", "float32", ()),
        ("done", "bool", ()),
        ("timestamp", "float64", ()),
        ("next_obs", "float32", (17,)),
    ],
    "W2": [("obs", "float32", (376,)), ("action", "float32", (17,)), ("reward", "float32", ())],
    "W3": [("obs", "float32", (8,)), ("task", "text", ())],
    "W3u": [("obs", "float32", (8,)), ("task", "text", ())],
}
DEFAULT_ROWS = {"W1": 1_000_000, "W2": 100_000, "W3": 500_000, "W3u": 200_000}
QUICK_ROWS = {"W1": 50_000, "W2": 10_000, "W3": 30_000, "W3u": 20_000}
CHUNK = 1024

TASKS = [
    f"pick up the {colour} {thing} and put it down"
    for colour in ("red", "green", "blue", "small", "large")
    for thing in ("cube", "mug", "bowl", "ball")
]
"""Instructions of W3: few, and each in many rows, as in robot data sets."""

TEXT_WIDTH = max(map(len, TASKS))


def make(workload: str, rows: int, seed: int = 0) -> Rows:
    """Columns of random rows; W3u has a different text in every row."""
    rng = np.random.default_rng(seed)
    data: Rows = {}
    for name, dtype, shape in COLUMNS[workload]:
        if dtype == "text" and workload == "W3u":
            data[name] = np.array([f"row {row}: {row * 2654435761 % 2**32}" for row in range(rows)])
        elif dtype == "text":
            data[name] = np.array(TASKS)[rng.integers(0, len(TASKS), rows)]
        elif dtype == "bool":
            data[name] = rng.random((rows, *shape)) < 0.01
        elif name == "timestamp":
            data[name] = np.arange(rows) / 30.0
        else:
            data[name] = rng.standard_normal((rows, *shape), dtype=np.float32).astype(dtype)
    return data


def row_bytes(workload: str) -> int:
    """Raw bytes of a row, a character of text counted as one."""
    sizes = (
        TEXT_WIDTH if dtype == "text" else np.dtype(dtype).itemsize * int(np.prod(shape))
        for _, dtype, shape in COLUMNS[workload]
    )
    return sum(sizes)


def space(workload: str) -> Any:
    """The space of one row, in whichever library is importable."""
    from unienv_interface.backends.numpy import NumpyComputeBackend
    from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, TextSpace

    children: dict[str, Any] = {}
    for name, dtype, shape in COLUMNS[workload]:
        if dtype == "text":
            children[name] = TextSpace(NumpyComputeBackend, TEXT_WIDTH)
        elif dtype == "bool":
            children[name] = BinarySpace(NumpyComputeBackend, shape)
        else:
            children[name] = BoxSpace(
                NumpyComputeBackend, -np.inf, np.inf, np.dtype(dtype).type, shape=shape
            )
    return DictSpace(NumpyComputeBackend, children)


def batch(data: Rows, index: Any) -> Rows:
    """Rows as a store takes and gives them: text as an object array of `str`."""
    return {
        name: values[index].astype(object) if values.dtype.kind == "U" else values[index]
        for name, values in data.items()
    }


def chunks(data: Rows, size: int = CHUNK) -> Iterator[Rows]:
    """All rows in order."""
    rows = len(next(iter(data.values())))
    for start in range(0, rows, size):
        yield batch(data, slice(start, min(start + size, rows)))


def samples(data: Rows, count: int) -> list[Rows]:
    """Single rows as a control loop makes them."""
    first = batch(data, slice(0, count))
    return [{name: values[row] for name, values in first.items()} for row in range(count)]
