"""Spaces to try things on, and comparison of samples: for tests, here and elsewhere.

Needs hypothesis and pytest, which the library itself does not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from unienv_interface.backends import NumpyComputeBackend, deserialize_backend, deserialize_dtype
from unienv_interface.space import (
    BatchedSpace,
    BinarySpace,
    BoxSpace,
    DictSpace,
    DynamicBoxSpace,
    GraphSpace,
    TextSpace,
    TupleSpace,
    UnionSpace,
)

__all__ = [
    "BACKENDS",
    "FLOATS",
    "INTEGERS",
    "KINDS",
    "SHAPES",
    "box_bounds",
    "boxes",
    "drawn",
    "dtype_names",
    "load_backend",
    "same",
    "spaces",
    "various",
]

BACKENDS = ["numpy", "pytorch", "jax"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (2, 3), (0,), (2, 0)]


def load_backend(name: str) -> Any:
    """A backend, or a skipped test where its library is missing."""
    if name != "numpy":
        pytest.importorskip({"pytorch": "torch", "jax": "jax"}[name])
    return deserialize_backend(name)


def dtype_names(backend: Any) -> list[str]:
    """Names of the number dtypes a backend keeps as they are."""
    names = INTEGERS + FLOATS
    if backend.simplified_name != "jax":
        return names
    return [name for name in names if not name.endswith("64")]


def box_bounds(dtype: str) -> list[tuple[Any, Any]]:
    """Interesting bounds of a dtype."""
    inf = float("inf")
    if dtype in FLOATS:
        return [(-1, 1), (0.5, 2), (-inf, inf), (0, inf), (-inf, 3)]
    if dtype.startswith("u"):
        return [(0, 7), (-inf, inf), (3, inf)]
    return [(-4, 4), (-inf, inf), (0, inf), (-inf, 0)]


def boxes(backend: Any) -> Iterator[BoxSpace[Any, Any, Any]]:
    """Boxes of every dtype, shape and kind of bounds."""
    for name in dtype_names(backend):
        dtype = deserialize_dtype(backend, name)
        for low, high in box_bounds(name):
            for shape in SHAPES:
                yield BoxSpace(backend, low, high, dtype, shape=shape)


def various(backend: Any) -> dict[str, Any]:
    """One or two spaces of each kind."""
    f32, i32 = deserialize_dtype(backend, "float32"), deserialize_dtype(backend, "int32")
    box = BoxSpace(backend, -1, 1, f32, shape=(2,))
    scalar = BoxSpace(backend, 0, 9, i32, shape=())
    binary = BinarySpace(backend, (2, 2))
    text = TextSpace(backend, 4, charset="abc")
    return {
        "box": box,
        "scalar": scalar,
        "empty": BoxSpace(backend, -1, 1, f32, shape=(2, 0)),
        "rows": BoxSpace(
            backend, np.array([[0.0], [1.0]]), np.array([[2.0], [3.0]]), f32, shape=(2, 3)
        ),
        "dynamic": DynamicBoxSpace(backend, 1, 2, (1, 2), (4, 2), f32),
        "binary": binary,
        "text": text,
        "free text": TextSpace(backend, 3, min_length=1),
        "dict": DictSpace(backend, {"b": box, "a": {"x": binary, "y": scalar}}),
        "tuple": TupleSpace(backend, [scalar, box]),
        "union": UnionSpace(backend, [binary, box]),
        "batched": BatchedSpace(text, (2, 2)),
        "graph": GraphSpace(backend, box, scalar, True, 1, 4, 1, 5),
        "nodes": GraphSpace(backend, box, max_nodes=3),
        "mixed": DictSpace(backend, {"t": text, "u": UnionSpace(backend, [scalar, text])}),
    }


KINDS = list(various(NumpyComputeBackend))


def spaces(backend: Any = NumpyComputeBackend, *, texts: bool = True) -> st.SearchStrategy[Any]:
    """Strategy of trees of spaces."""
    names = st.sampled_from(dtype_names(backend))
    shapes = st.sampled_from(SHAPES)

    @st.composite
    def box(draw: st.DrawFn) -> Any:
        name = draw(names)
        low, high = draw(st.sampled_from(box_bounds(name)))
        dtype = deserialize_dtype(backend, name)
        return BoxSpace(backend, low, high, dtype, shape=draw(shapes))

    leaves = box() | shapes.map(lambda shape: BinarySpace(backend, shape))
    if texts:
        leaves |= st.sets(st.characters(categories=["L", "N"]), min_size=1, max_size=4).map(
            lambda charset: TextSpace(backend, 5, charset=charset)
        )

    def trees(children: Any) -> Any:
        dicts = st.dictionaries(st.text(max_size=3), children, max_size=3)
        return dicts.map(lambda d: DictSpace(backend, d)) | st.lists(children, max_size=3).map(
            lambda c: TupleSpace(backend, c)
        )

    return st.recursive(leaves, trees, max_leaves=5)


def drawn(space: Any, seed: int = 0, count: int = 1) -> list[Any]:
    """Samples of a space."""
    rng = space.backend.random.random_number_generator(seed)
    result = []
    for _ in range(count):
        rng, value = space.sample(rng)
        result.append(value)
    return result


def same(a: Any, b: Any) -> bool:
    """Whether two samples have equal structure, dtypes, shapes and values."""
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        return type(a) is type(b) and same(vars(a), vars(b))
    if hasattr(a, "dtype"):
        if type(a) is not type(b) or a.dtype != b.dtype or tuple(a.shape) != tuple(b.shape):
            return False
        if a.dtype == object:
            return all(map(same, a.flat, b.flat))
        return bool((np.asarray(a) == np.asarray(b)).all())
    return type(a) is type(b) and bool(a == b)
