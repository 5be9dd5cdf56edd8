"""The numpy backend against the table of the compatibility specification."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unienv_interface.backends import numpy as module
from unienv_interface.backends.numpy import NumpyComputeBackend as B

SHAPES: list[Any] = [(), (3,), (0,), (2, 3), 3]


def test_names_and_attributes() -> None:
    assert sorted(module.__all__) == module.__all__
    assert module.NumpyDtypeType == np.dtype[Any]
    assert module.NumpyRNGType is np.random.Generator
    assert (B.default_integer_dtype, B.default_index_dtype) == (int, int)
    assert (B.default_floating_dtype, B.default_boolean_dtype) == (float, bool)
    assert B.simplified_name == repr(B) == str(B) == "numpy"
    assert (np.ndarray, np.dtype, np.random.Generator) == (B.ARRAY_TYPE, B.DTYPE_TYPE, B.RNG_TYPE)
    assert B.inf == np.inf
    assert B.float32 is np.float32


def test_scalars_are_no_arrays() -> None:
    assert B.is_backendarray(np.array(1))
    for other in (np.float32(1), 1, True, [1], "a", memoryview(b"a"), None):
        assert not B.is_backendarray(other)


def test_conversion_is_identity() -> None:
    array = np.zeros(2, np.float32)
    assert B.from_numpy(array, dtype=np.int8, device="x") is array
    assert B.to_numpy(array) is array
    assert B.from_other_backend(B, array) is array
    assert B.device(array) == "cpu"
    assert B.to_device(array, "cpu") is array
    assert B.serialize_device("cpu") is None
    assert B.deserialize_device("cpu") is None


@pytest.mark.parametrize(
    ("dtype", "family"),
    [
        (np.int8, "integer"),
        (np.dtype("uint64"), "integer"),
        (int, "integer"),
        ("int32", "integer"),
        (np.float16, "floating"),
        (float, "floating"),
        (np.dtype(">f4"), "floating"),
        (bool, "boolean"),
        (np.bool_, "boolean"),
        (np.dtype(bool), "boolean"),
        (complex, None),
        (np.complex64, None),
        (object, None),
        (str, None),
        ("no dtype", None),
        (None, None),
        (object(), None),
        (np.dtype("datetime64[s]"), None),
    ],
)
def test_families_of_dtypes(dtype: Any, family: str | None) -> None:
    assert B.dtype_is_real_integer(dtype) == (family == "integer")
    assert B.dtype_is_real_floating(dtype) == (family == "floating")
    assert B.dtype_is_boolean(dtype) == (family == "boolean")


def test_updates() -> None:
    array = np.arange(4)
    assert B.at(array)[1].set(9) is array
    assert B.at(array)[np.array([0, 0])].add(5) is array
    assert array.tolist() == [5, 9, 2, 3]  # a repeated index counts once
    assert B.at(array)[..., None].set(1) is array
    assert array.tolist() == [1, 1, 1, 1]
    scalar = np.array(3)
    assert B.at(scalar)[()].add(1) is scalar
    assert int(scalar) == 4
    fixed = np.zeros(2)
    fixed.flags.writeable = False
    assert B.at(fixed)[0].add(1).tolist() == [1, 0]
    assert fixed.tolist() == [0, 0]


def test_abbreviation() -> None:
    for array, short in (
        (np.full((2, 2), 3, np.int8), 3),
        (np.array([True, True]), True),
        (np.array(0.5), 0.5),
        (np.array([np.inf, np.inf]), np.inf),
    ):
        result = B.abbreviate_array(array)
        assert result == short
        assert type(result) is type(short)
        assert B.abbreviate_array(array, try_cast_scalar=False) is array
    for array in (np.array([1, 2]), np.full(2, np.nan), np.zeros((0, 3))):
        assert B.abbreviate_array(array) is array


def test_padding() -> None:
    array = np.ones((2, 1), np.int8)
    assert B.pad_dim(array, -1, 3, 7).tolist() == [[1, 7, 7], [1, 7, 7]]
    assert B.pad_dim(array, 0, 3).tolist() == [[1], [1], [0]]
    assert B.pad_dim(array, 0, 3).dtype == np.int8
    with pytest.raises(ValueError, match="axis 1 has 1 > 0"):
        B.pad_dim(array, 1, 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_random_arrays(shape: Any) -> None:
    random, rng = B.random, np.random.default_rng(3)
    axes = (shape,) if isinstance(shape, int) else shape
    results: dict[str, tuple[Any, Any]] = {
        "int64": random.random_discrete_uniform(shape, -2, 3, rng=rng),
        "uint8": random.random_discrete_uniform(shape, 0, 256, rng=rng, dtype=np.uint8),
        "uint64": random.random_discrete_uniform(shape, 0, 2**64, rng=rng, dtype=np.uint64),
        "float64": random.random_uniform(shape, rng=rng),
        "float32": random.random_uniform(shape, -1.0, 1.0, rng=rng, dtype=np.float32),
        "float16": random.random_normal(shape, rng=rng, dtype=np.float16),
    }
    for name, (same, array) in results.items():
        assert same is rng
        assert isinstance(array, np.ndarray)
        assert (array.shape, array.dtype) == (axes, np.dtype(name))
    for same, array in (
        random.random_exponential(shape, lambd=2.0, rng=rng),
        random.random_geometric(shape, p=0.5, rng=rng),
    ):
        assert same is rng
        assert isinstance(array, np.ndarray)
        assert array.shape == axes


def test_random_parameters() -> None:
    random, rng = B.random, np.random.default_rng(0)
    count = 20000
    means = {
        "uniform": random.random_uniform(count, 2.0, 4.0, rng=rng)[1].mean() - 3,
        "normal": random.random_normal(count, mean=5.0, std=2.0, rng=rng)[1].mean() - 5,
        "exponential": random.random_exponential(count, lambd=4.0, rng=rng)[1].mean() - 0.25,
        "geometric": random.random_geometric(count, p=0.5, rng=rng)[1].mean() - 2,
    }
    assert all(abs(mean) < 0.1 for mean in means.values()), means
    assert abs(random.random_normal(count, mean=5.0, std=2.0, rng=rng)[1].std() - 2) < 0.1
    assert random.random_permutation(0, rng=rng)[1].shape == (0,)
    _, order = random.random_permutation(5, rng=rng, dtype=np.int8)
    assert sorted(order.tolist()) == [0, 1, 2, 3, 4]
    assert order.dtype == np.int8


@given(st.integers(0, 2**64), st.integers(-(2**62), 2**62), st.integers(1, 2**20))
def test_discrete_is_half_open_and_repeatable(seed: int, low: int, width: int) -> None:
    def drawn() -> list[int]:
        rng = B.random.random_number_generator(seed)
        numbers: list[int] = B.random.random_discrete_uniform((8,), low, low + width, rng=rng)[
            1
        ].tolist()
        return numbers

    assert drawn() == drawn()
    assert all(low <= number < low + width for number in drawn())


def test_discrete_numbers_as_floats() -> None:
    _, array = B.random.random_discrete_uniform(
        (50,), 0, 3, rng=np.random.default_rng(0), dtype=np.float32
    )
    assert array.dtype == np.float32
    assert set(array.tolist()) == {0, 1, 2}


def test_own_mappings_and_dataclasses() -> None:
    frozen = types.MappingProxyType({"a": np.zeros(1)})
    mapped = B.map_fn_over_arrays(frozen, lambda x: x + 1)
    assert isinstance(mapped, types.MappingProxyType)
    assert mapped["a"].tolist() == [1]
    assert frozen["a"].tolist() == [0]
    for leaf in (3, "text", None, np.float32(1), {1}):
        assert B.map_fn_over_arrays(leaf, lambda x: x + 1) is leaf
