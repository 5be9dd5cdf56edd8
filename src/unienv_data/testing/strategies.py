"""Hypothesis strategies of spaces and of batches with every bit pattern."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np

from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, Space, TextSpace, TupleSpace

__all__ = [
    "NUMBER_DTYPES",
    "SHAPES",
    "batch_of",
    "batches",
    "box",
    "dict_spaces",
    "spaces",
    "texts",
]

NUMBER_DTYPES = [
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
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (3,), (1, 1), (2, 3), (2, 2, 3), (3, 0), (0,))


def box(dtype: str, shape: tuple[int, ...]) -> BoxSpace:
    """An unbounded Box."""
    return BoxSpace(NumpyComputeBackend, -np.inf, np.inf, np.dtype(dtype).type, shape=shape)


def texts(max_length: int) -> st.SearchStrategy[str]:
    """Any Unicode text, NULs and characters beyond the basic plane included."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=0, max_size=max_length)


def spaces() -> st.SearchStrategy[Space[Any, Any, Any, Any]]:
    """Box, Binary and Text spaces of every storable dtype and of many shapes."""
    return st.one_of(
        st.builds(box, st.sampled_from(NUMBER_DTYPES), st.sampled_from(SHAPES)),
        st.builds(lambda shape: BinarySpace(NumpyComputeBackend, shape), st.sampled_from(SHAPES)),
        st.builds(lambda length: TextSpace(NumpyComputeBackend, length), st.integers(1, 12)),
    )


def dict_spaces(max_size: int = 4) -> st.SearchStrategy[DictSpace]:
    """Flat DictSpaces with awkward names."""
    names = st.one_of(
        st.sampled_from(["data", "obs", "a.b", "a/b", 'quo"te', "list", "element", "naïve", " "]),
        st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=5),
    )
    return st.dictionaries(names, spaces(), min_size=1, max_size=max_size).map(
        lambda children: DictSpace(NumpyComputeBackend, children)
    )


def batch_of(space: Any, count: int, rng: np.random.Generator) -> Any:
    """A batch of random bits: NaN payloads, infinities and negative zeros included."""
    if isinstance(space, DictSpace):
        return {key: batch_of(child, count, rng) for key, child in space.spaces.items()}
    if isinstance(space, TupleSpace):
        return tuple(batch_of(child, count, rng) for child in space.spaces)
    if isinstance(space, TextSpace):
        letters = np.array(list("ab\0é漢😀 "), dtype=object)
        result = np.empty(count, dtype=object)
        for row in range(count):
            length = int(rng.integers(0, min(space.max_length, 12) + 1))
            result[row] = "".join(rng.choice(letters, length)) if length else ""
        return result
    shape = (count, *space.shape)
    if isinstance(space, BinarySpace):
        return rng.random(shape) < 0.5
    dtype = np.dtype(space.dtype)
    raw = rng.bytes(math.prod(shape) * dtype.itemsize)
    return np.frombuffer(raw, dtype=dtype).reshape(shape).copy()


@st.composite
def batches(draw: st.DrawFn, space: Any, max_rows: int = 20) -> tuple[int, Any]:
    """A row count and a batch of that many rows."""
    count = draw(st.integers(0, max_rows))
    return count, batch_of(space, count, np.random.default_rng(draw(st.integers(0, 2**32 - 1))))
