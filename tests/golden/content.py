"""What the golden directories hold; plain numpy, so that the original library can write it too."""

from __future__ import annotations

from typing import Any

import numpy as np

COUNT = 11
DTYPES = [
    "bool",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (1, 1), (3,), (2, 3))
TEXTS = ["", "a", "näh", "漢字", "x\0y", "😀", "a", "b", "longer text", " ", "a"]


def column(dtype: str, shape: tuple[int, ...], count: int = COUNT) -> Any:
    """Values that use the whole range of a dtype, special floats included."""
    size = count * int(np.prod(shape, dtype=int))
    if dtype == "bool":
        return (np.arange(size) % 3 == 0).reshape(count, *shape)
    if dtype.startswith("float"):
        values = (np.arange(size) - size // 2).astype(dtype) / np.dtype(dtype).type(3)
        special = [np.nan, np.inf, -np.inf, -0.0]
        values[: len(special)] = special
        return values.reshape(count, *shape)
    limits = np.iinfo(dtype)
    values = np.arange(size).astype(dtype)
    values[0], values[-1] = limits.min, limits.max
    return values.reshape(count, *shape)


def batch(dtypes: Any = DTYPES) -> dict[str, Any]:
    """One batch of `COUNT` rows."""
    result = {
        dtype: column(dtype, SHAPES[number % len(SHAPES)])
        for number, dtype in enumerate(DTYPES)
        if dtype in dtypes
    }
    texts = np.empty(COUNT, dtype=object)
    texts[:] = TEXTS
    return {"text": texts, **result}
