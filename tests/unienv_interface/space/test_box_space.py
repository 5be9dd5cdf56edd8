"""BoxSpace: bounds, members, samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.backends import deserialize_dtype
from unienv_interface.errors import SpaceDefinitionError
from unienv_interface.space import BoxSpace
from unienv_interface.testing import BACKENDS, FLOATS, INTEGERS, SHAPES, boxes, drawn, load_backend

INF = float("inf")


@pytest.mark.parametrize("name", BACKENDS)
def test_samples_are_members(name: str) -> None:
    backend = load_backend(name)
    for box in boxes(backend):
        for value in drawn(box, 3, 2):
            assert box.contains(value), box
            assert value in box
            assert backend.is_backendarray(value)
            assert value.dtype == box.dtype
            assert tuple(value.shape) == box.shape


def test_shape_and_stored_bounds() -> None:
    box = BoxSpace(B, 0, 1, np.float32, shape=[2, 3])
    assert box.shape == (2, 3)
    assert box._low.shape == box._high.shape == (1, 1)
    assert box.low.shape == box.high.shape == (2, 3)
    assert box.dtype is np.float32
    assert BoxSpace(B, 0, 1, np.float32).shape == ()
    assert BoxSpace(B, np.zeros((3, 1)), np.ones(4), np.float32).shape == (3, 4)
    rows = BoxSpace(B, np.zeros((2, 1)), np.ones((2, 1)), np.float32, shape=(2, 3))
    assert rows._low.shape == (2, 1)
    assert rows.low.shape == (2, 3)


def test_positional_order() -> None:
    box = BoxSpace(B, -1, 1, np.float32, "cpu", (2,), {"unit": "m"})
    assert (box.device, box.shape, box.metadata["unit"]) == ("cpu", (2,), "m")


def test_bounds_are_copied() -> None:
    low = np.zeros(2, np.float32)
    box = BoxSpace(B, low, 1, np.float32)
    low[:] = 5
    assert box.low.tolist() == [0, 0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"dtype": bool},
        {"dtype": np.complex64},
        {"dtype": object},
        {"dtype": None},
        {"low": 2},
        {"low": np.nan},
        {"high": [0.0, np.nan]},
        {"low": np.zeros(3)},
        {"shape": (2, -1)},
        {"shape": (2.5,)},
        {"shape": 2},
        {"shape": (True,)},
        {"low": "a"},
        {"low": [[1], [1, 2]]},
        {"dtype": np.uint8, "low": -1},
        {"dtype": np.uint8, "high": 300},
        {"dtype": np.int64, "high": 1e30},
    ],
)
def test_refused(arguments: dict[str, Any]) -> None:
    whole = {"low": 0, "high": 1, "dtype": np.float32, "shape": (2,), **arguments}
    with pytest.raises(SpaceDefinitionError) as caught:
        BoxSpace(B, **whole)
    assert isinstance(caught.value, (AssertionError, ValueError))


@pytest.mark.parametrize("name", INTEGERS)
def test_infinite_integers_are_the_limits(name: str) -> None:
    box = BoxSpace(B, -INF, INF, np.dtype(name), shape=(2,))
    limits = np.iinfo(name)
    assert box.low.tolist() == [limits.min] * 2
    assert box.high.tolist() == [limits.max] * 2
    assert box.low.dtype == np.dtype(name)
    again = BoxSpace(B, float(limits.min), float(limits.max), np.dtype(name), shape=(2,))
    assert again == box
    exact = BoxSpace(B, int(limits.min), int(limits.max), np.dtype(name), shape=(2,))
    assert exact == box
    assert box.is_bounded()


def test_fractional_integer_bounds_shrink() -> None:
    box = BoxSpace(B, 0.5, 3.5, np.int32, shape=())
    assert (int(box.low), int(box.high)) == (1, 3)


@pytest.mark.parametrize("name", FLOATS)
def test_boundedness(name: str) -> None:
    def bounded(low: float, high: float) -> list[bool]:
        box = BoxSpace(B, low, high, np.dtype(name), shape=(2,))
        return [box.is_bounded("both"), box.is_bounded("below"), box.is_bounded("above")]

    assert bounded(0, 1) == [True, True, True]
    assert bounded(0, INF) == [False, True, False]
    assert bounded(-INF, 0) == [False, False, True]
    assert bounded(-INF, INF) == [False, False, False]
    with pytest.raises(ValueError, match="sideways"):
        BoxSpace(B, 0, 1, np.float32).is_bounded("sideways")  # type: ignore[arg-type]


def test_members() -> None:
    box = BoxSpace(B, -1, 1, np.float32, shape=(2,))
    assert box.contains(np.array([-1, 1], np.float32))
    assert box.contains(np.zeros(2, np.float16))
    assert box.contains(np.zeros(2, np.int16))
    assert box.contains(np.zeros(2, bool))
    for wrong in (
        np.zeros(2),
        np.zeros(2, np.int32),
        np.array([0, 1.5], np.float32),
        np.array([0, np.nan], np.float32),
        np.array([0, np.inf], np.float32),
        np.zeros((1, 2), np.float32),
        np.zeros(1, np.float32),
        np.zeros(2, np.complex64),
        np.zeros(2, object),
        [0.0, 0.0],
        0.0,
        None,
    ):
        assert not box.contains(wrong), wrong
    scalar = BoxSpace(B, 0, 3, np.int64, shape=())
    assert scalar.contains(np.array(2))
    assert not scalar.contains(np.int64(2))
    assert not scalar.contains(2)


def test_nan_is_outside_unbounded() -> None:
    free = BoxSpace(B, -INF, INF, np.float32, shape=(2,))
    assert free.contains(np.array([np.inf, -np.inf], np.float32))
    assert not free.contains(np.array([np.nan, 0], np.float32))
    uneven = BoxSpace(B, np.array([-INF, 0]), INF, np.float32)
    assert not uneven.contains(np.array([np.nan, 0], np.float32))
    assert not uneven.contains(np.array([0, -1], np.float32))


@pytest.mark.parametrize("name", BACKENDS)
def test_wide_unsigned(name: str) -> None:
    """Torch has no order for these dtypes."""
    backend = load_backend(name)
    for kind in ("uint16", "uint32"):
        dtype = deserialize_dtype(backend, kind)
        box = BoxSpace(backend, 1, 5, dtype, shape=(2,))
        assert box.contains(backend.from_numpy(np.array([1, 5], kind)))
        assert not box.contains(backend.from_numpy(np.array([0, 5], kind)))


def test_bfloat16() -> None:
    torch = pytest.importorskip("torch")
    backend = load_backend("pytorch")
    box = BoxSpace(backend, -1, 1, torch.bfloat16, shape=(3,))
    (value,) = drawn(box)
    assert value.dtype == torch.bfloat16
    assert box.contains(value)
    assert box.create_empty().dtype == torch.bfloat16


@pytest.mark.parametrize("name", BACKENDS)
def test_clip(name: str) -> None:
    backend = load_backend(name)
    box = BoxSpace(backend, -1, 1, deserialize_dtype(backend, "float32"), shape=(2,))
    clipped = box.clip(backend.from_numpy(np.array([5, 0.5], np.float32)))
    assert backend.to_numpy(clipped).tolist() == [1, 0.5]
    assert box.contains(clipped)


@pytest.mark.parametrize("name", BACKENDS)
def test_empty(name: str) -> None:
    for box in boxes(load_backend(name)):
        empty = box.create_empty()
        assert tuple(empty.shape) == box.shape
        assert empty.dtype == box.dtype


def test_equality() -> None:
    box = BoxSpace(B, 0, 1, np.float32, shape=(2,))
    assert box == BoxSpace(B, np.zeros(2), np.ones(2), np.dtype("float32"))
    assert box == BoxSpace(B, 0, 1 + 1e-9, np.float32, "cpu", (2,), {"a": 1})
    assert hash(box) == hash(box.with_metadata(a=1))
    assert BoxSpace(B, -INF, INF, np.float32) == BoxSpace(B, -INF, INF, np.float32)
    for other in (
        BoxSpace(B, 0, 2, np.float32, shape=(2,)),
        BoxSpace(B, 0, 1, np.float64, shape=(2,)),
        BoxSpace(B, 0, 1, np.float32, shape=(2, 1)),
        "box",
    ):
        assert box != other


def test_subspaces() -> None:
    small = BoxSpace(B, 0, 1, np.float32, shape=(2,))
    large = BoxSpace(B, 0, 2, np.float32, shape=(2,))
    assert small.is_subspaceeq(small)
    assert small.is_subspaceeq(large)
    assert not large.is_subspaceeq(small)
    assert small.is_subspace(large)
    assert not small.is_subspace(small)
    assert not small.is_subspaceeq(BoxSpace(B, 0, 2, np.float32, shape=(3,)))
    assert BoxSpace(B, 0, 1, np.float16, shape=(2,)).is_subspaceeq(small)
    assert not BoxSpace(B, 0, 1, np.float64, shape=(2,)).is_subspaceeq(small)


@pytest.mark.parametrize("name", ["pytorch", "jax"])
def test_to_other_backends(name: str) -> None:
    backend = load_backend(name)
    box = BoxSpace(B, np.array([0, 1]), 2, np.float32, metadata={"a": 1})
    moved = box.to(backend)
    assert moved.backend is backend
    assert moved.dtype == deserialize_dtype(backend, "float32")
    assert moved.metadata == box.metadata
    assert moved.to(B) == box
    (value,) = drawn(box)
    assert moved.contains(box.data_to(value, backend))
    assert (moved.data_to(box.data_to(value, backend), B) == value).all()
    assert moved != box


def test_to_the_same_is_the_same() -> None:
    box = BoxSpace(B, 0, 1, np.float32)
    assert box.to() is box
    assert box.to(B) is box
    assert box.to(device="cpu").device == "cpu"
    assert box.to(B, "cpu").to(device="cpu").device == "cpu"


def test_repr_is_short_for_equal_bounds() -> None:
    box = BoxSpace(B, -1, 1, np.float32, shape=(2,))
    assert box.get_repr(False, False, False, False) == "BoxSpace(-1.0, 1.0, (2,))"
    assert "numpy" in repr(box)
    assert "numpy" not in box.get_repr(abbreviate=True)


@given(
    st.sampled_from(INTEGERS).flatmap(
        lambda name: st.tuples(
            st.just(name),
            st.integers(int(np.iinfo(name).min), int(np.iinfo(name).max)),
            st.integers(int(np.iinfo(name).min), int(np.iinfo(name).max)),
        )
    ),
    st.integers(0, 2**31),
    st.sampled_from(SHAPES),
)
def test_any_integer_bounds(bounds: tuple[str, int, int], seed: int, shape: Any) -> None:
    name, a, b = bounds
    box = BoxSpace(B, min(a, b), max(a, b), np.dtype(name), shape=shape)
    (value,) = drawn(box, seed)
    assert box.contains(value)
    if value.size:
        assert min(a, b) <= int(value.flat[0]) <= max(a, b)


@given(
    st.sampled_from(FLOATS).flatmap(
        lambda name: st.tuples(
            st.just(name),
            *[st.floats(width=int(name[5:]), allow_nan=False)] * 4,  # type: ignore[arg-type]
        )
    ),
    st.integers(0, 2**31),
)
def test_any_float_bounds(case: tuple[str, float, float, float, float], seed: int) -> None:
    name, *ends = case
    low, high = np.sort(np.array(ends, name).reshape(2, 2), axis=0)
    if (low == np.inf).any() or (high == -np.inf).any():
        return  # an infinite point
    box = BoxSpace(B, low, high, np.dtype(name))
    (value,) = drawn(box, seed)
    assert box.contains(value)
    assert np.isfinite(value).all()


def test_samples_reach_both_ends() -> None:
    box = BoxSpace(B, -1, 1, np.int8, shape=(200,))
    assert set(drawn(box)[0].tolist()) == {-1, 0, 1}
    uneven = BoxSpace(B, np.array([0, 5]), np.array([1, 6]), np.int64)
    seen = np.stack(drawn(uneven, 0, 50))
    assert set(seen[:, 0]) == {0, 1}
    assert set(seen[:, 1]) == {5, 6}
    whole = BoxSpace(B, -INF, INF, np.int64, shape=(100,))
    (values,) = drawn(whole)
    assert len(set(values.tolist())) == 100
    assert (values < 0).any()
    assert (values > 0).any()


def test_subscriptable() -> None:
    assert BoxSpace[Any, Any, Any] is not None


def test_bounds_in_lists_keep_every_bit() -> None:
    """numpy makes floats of a list of integers below and from 2**63 on."""
    box = BoxSpace(B, [0, 2**63 + 5], [7, 2**64 - 1], np.uint64)
    assert box.low.tolist() == [0, 2**63 + 5]
    assert box.high.tolist() == [7, 2**64 - 1]
    assert not box.contains(np.array([0, 2**63 + 4], np.uint64))
    assert BoxSpace(B, [-(2**63), 5], [2**63 - 1, 7], np.int64).high.tolist() == [2**63 - 1, 7]
    assert BoxSpace(B, [0, 1.5], [2**53 + 1, INF], np.float64).low.tolist() == [0, 1.5]
    assert BoxSpace(B, [], [], np.int8).shape == (0,)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("floats", FLOATS)
def test_float_bounds_of_integers(kind: str, floats: str) -> None:
    limits = np.iinfo(kind)
    with np.errstate(over="ignore"):
        ends = np.array([limits.min, limits.max], np.float64).astype(floats)
    for low, high in ((ends[:1], ends[1:]), np.array([[-INF], [INF]], floats)):
        box = BoxSpace(B, low, high, np.dtype(kind))
        assert box.low.tolist() == [limits.min]
        assert box.high.tolist() == [limits.max]
    inner = BoxSpace(B, np.array([1.5], floats), np.array([7.5], floats), np.dtype(kind))
    assert (inner.low.tolist(), inner.high.tolist()) == ([2], [7])


@pytest.mark.parametrize("bound", [10**400, [10**400], 10**30])
def test_integers_that_no_bound_holds(bound: Any) -> None:
    dtype = np.int64 if bound == 10**30 else np.float64
    with pytest.raises(SpaceDefinitionError, match="does not fit"):
        BoxSpace(B, 0, bound, dtype)


@pytest.mark.parametrize("name", FLOATS)
def test_extremes_differ_quietly(name: str) -> None:
    largest = float(np.finfo(name).max)
    whole = BoxSpace(B, -largest, largest, np.dtype(name))
    assert whole == BoxSpace(B, -largest, largest, np.dtype(name))
    assert whole != BoxSpace(B, largest, largest, np.dtype(name))
    assert whole != BoxSpace(B, -INF, INF, np.dtype(name))
    assert BoxSpace(B, -INF, INF, np.dtype(name)).is_subspaceeq(whole) is False
    assert whole.is_subspace(BoxSpace(B, -INF, INF, np.dtype(name)))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("floats", ["float32", "float64"])
def test_clip_floats_to_integers(name: str, kind: str, floats: str) -> None:
    backend = load_backend(name)
    if name == "jax" and (kind == "int64" or floats == "float64"):
        pytest.skip("jax without its 64-bit mode")
    limits = np.iinfo(kind)
    box = BoxSpace(backend, -INF, INF, deserialize_dtype(backend, kind), shape=(4,))
    values = backend.from_numpy(np.array([-1e30, 1e30, 3.7, INF], floats))
    clipped = box.clip(values)
    assert box.contains(clipped)
    assert clipped.dtype == box.dtype
    assert backend.to_numpy(clipped).tolist() == [limits.min, limits.max, 3, limits.max]


def test_clip_unsigned_to_signed() -> None:
    box = BoxSpace(B, -INF, INF, np.int64, shape=())
    assert int(box.clip(np.array(2**64 - 1, np.uint64))) == 2**63 - 1
    assert int(BoxSpace(B, 0, 5, np.uint8, shape=()).clip(np.array(-7))) == 0


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_one_sided_integers(kind: str) -> None:
    limits = np.iinfo(kind)
    for low, high in ((limits.max - 1, INF), (-INF, limits.min + 1), (limits.min, limits.min)):
        box = BoxSpace(B, low, high, np.dtype(kind), shape=(64,))
        (value,) = drawn(box)
        assert box.contains(value)
        assert len(set(value.tolist())) == 1 + (low != high)


@given(
    st.sampled_from(FLOATS).flatmap(
        lambda name: st.tuples(
            st.just(name),
            st.floats(width=int(name[5:]), allow_nan=False, allow_infinity=False),  # type: ignore[arg-type]
        )
    ),
    st.integers(0, 2**31),
)
def test_one_sided_floats(case: tuple[str, float], seed: int) -> None:
    name, end = case
    for low, high in ((end, INF), (-INF, end), (end, end)):
        box = BoxSpace(B, low, high, np.dtype(name), shape=(3,))
        (value,) = drawn(box, seed)
        assert box.contains(value)
        assert np.isfinite(value).all()


@given(
    st.lists(st.integers(0, 2), max_size=3).flatmap(
        lambda shape: st.tuples(
            st.just(tuple(shape)), st.lists(st.booleans(), min_size=len(shape), max_size=len(shape))
        )
    )
)
def test_stored_axes_are_one_or_full(case: tuple[tuple[int, ...], list[bool]]) -> None:
    shape, kept = case
    given_shape = tuple(n if keep else 1 for n, keep in zip(shape, kept, strict=True))
    box = BoxSpace(B, np.zeros(given_shape), 1, np.float32, shape=shape)
    assert box._low.shape == given_shape
    assert box._high.shape == (1,) * len(shape)
    assert box.low.shape == box.high.shape == shape
    assert box.contains(drawn(box)[0])
    assert box == BoxSpace(B, 0, 1, np.float32, shape=shape)


NUMBERS = [*INTEGERS, *FLOATS, "bool"]


@pytest.mark.parametrize("target", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("source", NUMBERS)
def test_members_by_the_safe_rule(source: str, target: str) -> None:
    box = BoxSpace(B, 0, 1, np.dtype(target), shape=(2,))
    assert box.contains(np.ones(2, source)) == np.can_cast(source, target, "safe")
    assert not box.contains(np.ones(2, source)[:1])


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64"])
def test_wide_scalars(kind: str) -> None:
    """numpy 1 treats unsigned scalars unlike unsigned arrays."""
    box = BoxSpace(B, -INF, INF, np.dtype(kind), shape=())
    values = [int(value) for value in drawn(box, 0, 50)]
    assert all(box.contains(value) for value in drawn(box, 0, 50))
    assert len(set(values)) == 50
    middle = (int(np.iinfo(kind).min) + int(np.iinfo(kind).max)) // 2
    assert min(values) < middle < max(values)
    narrow = BoxSpace(B, np.iinfo(kind).max - 1, INF, np.dtype(kind), shape=())
    assert {int(value) for value in drawn(narrow, 0, 50)} == {
        np.iinfo(kind).max - 1,
        np.iinfo(kind).max,
    }


def test_bounds_of_different_shapes() -> None:
    with pytest.raises(SpaceDefinitionError, match="differ"):
        BoxSpace(B, np.zeros(2), np.ones(3), np.float32)
