"""Gymnasium's spaces and ours."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.errors import UnsupportedSpaceError
from unienv_interface.space import (
    BinarySpace,
    BoxSpace,
    DictSpace,
    GraphSpace,
    TextSpace,
    TupleSpace,
    UnionSpace,
)
from unienv_interface.space.space_utils import gym_utils
from unienv_interface.space.space_utils.gym_utils import (
    from_gym_data,
    from_gymnasium,
    to_gym_data,
    to_gymnasium,
)
from unienv_interface.testing import drawn, load_backend, various

S = pytest.importorskip("gymnasium").spaces

WITH_COUNTERPART = ["box", "scalar", "rows", "binary", "text", "dict", "tuple", "union", "graph"]
THEIRS: list[tuple[Any, Any]] = [
    (S.Box(0, 1, (2,), np.float32), BoxSpace(B, 0, 1, np.float32, shape=(2,))),
    (S.Box(-np.inf, np.inf, (), np.float64), BoxSpace(B, -np.inf, np.inf, np.float64)),
    (S.Box(0, 255, (2, 2, 3), np.uint8), BoxSpace(B, 0, 255, np.uint8, shape=(2, 2, 3))),
    (S.Discrete(3), BoxSpace(B, 0, 2, np.int64)),
    (S.Discrete(3, start=-5), BoxSpace(B, -5, -3, np.int64)),
    (S.MultiDiscrete([2, 3]), BoxSpace(B, np.array([0, 0]), np.array([1, 2]), np.int64)),
    (
        S.MultiDiscrete([2, 3], start=[1, 5]),
        BoxSpace(B, np.array([1, 5]), np.array([2, 7]), np.int64),
    ),
    (S.MultiBinary(3), BinarySpace(B, (3,))),
    (S.MultiBinary((2, 3)), BinarySpace(B, (2, 3))),
    (S.Text(5, charset="ab"), TextSpace(B, 5, min_length=1, charset="ab")),
    (S.Dict(b=S.Discrete(2)), DictSpace(B, {"b": BoxSpace(B, 0, 1, np.int64)})),
    (S.Tuple([S.Discrete(2)]), TupleSpace(B, [BoxSpace(B, 0, 1, np.int64)])),
    (S.OneOf([S.Discrete(2)]), UnionSpace(B, [BoxSpace(B, 0, 1, np.int64)])),
    (
        S.Graph(S.Box(0, 1, (2,)), S.Discrete(3)),
        GraphSpace(B, BoxSpace(B, 0, 1, np.float32, shape=(2,)), BoxSpace(B, 0, 2, np.int64), True),
    ),
]


@pytest.mark.parametrize(("theirs", "ours"), THEIRS)
def test_from_theirs(theirs: Any, ours: Any) -> None:
    assert from_gymnasium(theirs) == ours
    assert gym_utils.from_gym_space(theirs, B) == ours
    theirs.seed(0)
    for _ in range(5):
        sample = theirs.sample()
        value = from_gym_data(ours, sample)
        assert ours.contains(value)


@pytest.mark.parametrize("kind", WITH_COUNTERPART)
@pytest.mark.parametrize("name", ["numpy", "pytorch"])
def test_there_and_back(name: str, kind: str) -> None:
    backend = load_backend(name)
    space = various(backend)[kind]
    theirs = to_gymnasium(space)
    back = from_gymnasium(theirs, backend)
    if kind != "graph":  # theirs has no limits
        assert back == space
    for value in drawn(space, 0, 5):
        sample = to_gym_data(space, value)
        if kind != "graph":  # they do not take edge features of shape ()
            assert theirs.contains(sample), sample
        assert space.contains(from_gym_data(space, sample))


def test_other_backends_dtypes_and_devices() -> None:
    box = from_gymnasium(S.Discrete(3), B, np.int32, "cpu")
    assert box == BoxSpace(B, 0, 2, np.int32)
    assert box.device == "cpu"


def test_scalars_and_missing_charsets() -> None:
    assert to_gymnasium(BinarySpace(B, ())).shape == ()
    assert "~" in to_gymnasium(TextSpace(B, 3)).character_set


def test_without_counterpart() -> None:
    with pytest.raises(UnsupportedSpaceError, match="Sequence"):
        from_gymnasium(S.Sequence(S.Discrete(2)))
    for kind in ("batched", "dynamic"):
        with pytest.raises(TypeError):
            to_gymnasium(various(B)[kind])
    with pytest.raises(TypeError):
        to_gymnasium(GraphSpace(B, None))


def test_missing_gymnasium_is_named_on_use() -> None:
    code = """
import sys
sys.modules["gymnasium"] = sys.modules["gymnasium.spaces"] = None
from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.errors import MissingDependencyError
from unienv_interface.space import BinarySpace
from unienv_interface.space.space_utils.gym_utils import to_gymnasium
try:
    to_gymnasium(BinarySpace(B, ()))
except MissingDependencyError as error:
    assert "unienv-data[gymnasium]" in str(error)
else:
    raise SystemExit("not refused")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


BOX = BoxSpace(B, 0, 1, np.float32, shape=(2,))
PAIRS: list[tuple[Any, Any]] = [
    (BOX, S.Box(0, 1, (2,), np.float32)),
    (BoxSpace(B, 3, 7, np.int16, shape=()), S.Box(3, 7, (), np.int16)),
    (BoxSpace(B, 0, np.inf, np.float64), S.Box(0, np.inf, (), np.float64)),
    (BoxSpace(B, 0, 1, np.float16, shape=(2,)), S.Box(0, 1, (2,), np.float16)),
    (BinarySpace(B, (2, 3)), S.MultiBinary((2, 3))),
    (TextSpace(B, 5, min_length=2, charset="ab"), S.Text(5, min_length=2, charset="ab")),
    (DictSpace(B, {"b": BOX, "a": BOX}), S.Dict(a=S.Box(0, 1, (2,)), b=S.Box(0, 1, (2,)))),
    (
        DictSpace(B, {"n": {"x": BOX}}),
        S.Dict(n=S.Dict(x=S.Box(0, 1, (2,)))),
    ),
    (TupleSpace(B, [BOX, BinarySpace(B, (1,))]), S.Tuple([S.Box(0, 1, (2,)), S.MultiBinary(1)])),
    (UnionSpace(B, [BOX, BinarySpace(B, (1,))]), S.OneOf([S.Box(0, 1, (2,)), S.MultiBinary(1)])),
    (GraphSpace(B, BOX), S.Graph(S.Box(0, 1, (2,)), None)),
    (GraphSpace(B, BOX, BOX, True), S.Graph(S.Box(0, 1, (2,)), S.Box(0, 1, (2,)))),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_exact_counterparts(ours: Any, theirs: Any) -> None:
    made = to_gymnasium(ours)
    if isinstance(ours, BinarySpace):  # a length and a shape of one axis differ there
        assert tuple(made.shape) == tuple(theirs.shape)
    elif not isinstance(ours, (TupleSpace, UnionSpace)):
        assert made == theirs
    assert from_gymnasium(made) == from_gymnasium(theirs) == ours
    assert gym_utils.to_gym_space is to_gymnasium
    theirs.seed(1)
    for _ in range(5):
        sample = theirs.sample()
        value = from_gym_data(ours, sample)
        assert ours.contains(value)
        assert theirs.contains(to_gym_data(ours, value))


def test_order_of_keys_is_kept() -> None:
    space = DictSpace(B, [("b", BOX), ("a", BOX)])
    assert list(to_gymnasium(space)) == ["b", "a"]
    assert list(from_gymnasium(to_gymnasium(space))) == ["b", "a"]


def test_converted_data_is_exact() -> None:
    flags = to_gym_data(BinarySpace(B, (2,)), np.array([True, False]))
    assert (flags.tolist(), flags.dtype) == ([1, 0], np.int8)
    assert from_gym_data(BinarySpace(B, (2,)), flags).dtype == bool
    index, value = to_gym_data(UnionSpace(B, [BOX]), (0, np.ones(2, np.float32)))
    assert isinstance(index, np.integer)
    assert value.tolist() == [1, 1]
    assert from_gym_data(BoxSpace(B, 0, 2, np.int64), np.int64(2)).shape == ()
    source = np.zeros(2, np.float32)
    assert not np.shares_memory(from_gym_data(BOX, source), source)


def test_many_discrete_axes() -> None:
    theirs = S.MultiDiscrete(np.array([[2, 3], [4, 5]]))
    ours = from_gymnasium(theirs)
    assert ours == BoxSpace(B, 0, np.array([[1, 2], [3, 4]]), np.int64)
    assert from_gymnasium(S.Discrete(1, start=7)) == BoxSpace(B, 7, 7, np.int64)


def test_nested_without_counterpart() -> None:
    with pytest.raises(UnsupportedSpaceError, match="Sequence"):
        from_gymnasium(S.Dict(a=S.Tuple([S.Sequence(S.Discrete(2))])))
    with pytest.raises(TypeError, match="DynamicBoxSpace"):
        to_gymnasium(DictSpace(B, {"a": various(B)["dynamic"]}))
