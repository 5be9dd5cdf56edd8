"""The rows that every store is given, the same for a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

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
}
DEFAULT_ROWS = {"W1": 1_000_000, "W2": 200_000, "W3": 500_000}
TASKS = [
    f"pick up the {colour} {thing} and put it down"
    for colour in ("red", "green", "blue", "small", "large")
    for thing in ("cube", "mug", "bowl", "ball")
]
TEXT_WIDTH = max(map(len, TASKS))


def make(workload: str, rows: int, seed: int = 0) -> dict[str, Any]:
    """Columns of random rows; text as fixed-width numpy text."""
    rng = np.random.default_rng(seed)
    data: dict[str, Any] = {}
    for name, dtype, shape in COLUMNS[workload]:
        if dtype == "text":
            data[name] = np.array(TASKS)[rng.integers(0, len(TASKS), rows)]
        elif dtype == "bool":
            data[name] = rng.random((rows, *shape)) < 0.01
        elif name == "timestamp":
            data[name] = np.arange(rows) / 30.0
        else:
            data[name] = rng.standard_normal((rows, *shape), dtype=np.float32).astype(dtype)
    return data


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


def batch(data: dict[str, Any], index: Any) -> dict[str, Any]:
    """Rows as a store takes them: text as an object array of `str`."""
    return {
        name: values[index].astype(object) if values.dtype.kind == "U" else values[index]
        for name, values in data.items()
    }


def samples(data: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Single rows as a control loop makes them."""
    first = batch(data, slice(0, count))
    return [{name: values[row] for name, values in first.items()} for row in range(count)]
