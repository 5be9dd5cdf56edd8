"""Names, seeds and keys."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.space import BoxSpace, DictSpace
from unienv_interface.utils import dict_util, seed_util, symbol_util


class Outer:
    class Inner:
        pass


def test_class_names() -> None:
    name = symbol_util.get_full_class_name(BoxSpace)
    assert name == "unienv_interface.space.spaces.box.BoxSpace"
    assert symbol_util.get_class_from_full_name(name) is BoxSpace
    nested = symbol_util.get_full_class_name(Outer.Inner)
    assert nested.endswith("Outer.Inner")
    assert symbol_util.get_class_from_full_name(nested) is Outer.Inner
    assert symbol_util.get_function_from_full_name("json.dumps") is json.dumps


@pytest.mark.parametrize("name", ["nowhere.X", "json.Nothing", "X", ""])
def test_names_that_lead_nowhere(name: str) -> None:
    with pytest.raises(ImportError):
        symbol_util.get_class_from_full_name(name)


def test_documented_rename(monkeypatch: pytest.MonkeyPatch) -> None:
    old = "unienv_data.storages.common.FlattenedStorage"
    assert symbol_util._RENAMED[old] == "unienv_data.storages.flattened.FlattenedStorage"
    monkeypatch.setitem(symbol_util._RENAMED, old, "json.JSONDecoder")
    assert symbol_util.get_class_from_full_name(old) is json.JSONDecoder


def test_functions_by_name() -> None:
    data = symbol_util.serialize_function(json.dumps)
    assert data == {"mode": "name", "value": "json.dumps"}
    assert symbol_util.deserialize_function(data) is json.dumps


def test_pickles_need_leave() -> None:
    data = symbol_util.serialize_function(functools.partial(max, 3))
    assert data["mode"] == "pickle"
    with pytest.raises(ValueError, match="allow_pickle"):
        symbol_util.deserialize_function(data)
    assert symbol_util.deserialize_function(data, allow_pickle=True)(5) == 5
    with pytest.raises(ValueError, match="mode"):
        symbol_util.deserialize_function({"mode": "exec", "value": "1"})


def test_unpicklable_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    monkeypatch.setattr(symbol_util, "_pickler", lambda: pickle)
    with pytest.raises(symbol_util.SymbolError, match="cloudpickle"):
        symbol_util.serialize_function(lambda: 1)


def test_seeds() -> None:
    first = seed_util.next_seed(np.random.default_rng(0))
    assert first == seed_util.next_seed(np.random.default_rng(0))
    assert isinstance(first, int)
    rng = np.random.default_rng(0)
    same, seed = seed_util.next_seed_rng(rng, B)
    assert same is rng
    assert 0 <= seed < 2**31
    assert seed_util.next_seed_rng(rng, B)[1] != seed


def test_flatten_keys() -> None:
    nested = {"a": {"b": 1, "c": {}}, "d": 2}
    flat = {"a/b": 1, "a/c": {}, "d": 2}
    assert dict_util.flatten_keys_in_mapping(nested) == flat
    assert dict_util.unflatten_keys_in_mapping(flat) == nested
    assert dict_util.flatten_keys_in_mapping(nested, ".") == {"a.b": 1, "a.c": {}, "d": 2}


@pytest.mark.parametrize("flat", [{"a": 1, "a/b": 2}, {"a/b": 2, "a": 1}])
def test_contradicting_keys(flat: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="'a'"):
        dict_util.unflatten_keys_in_mapping(flat)


@given(
    st.recursive(
        st.integers(),
        lambda inner: st.dictionaries(st.text("xyz", min_size=1, max_size=2), inner, max_size=3),
    ).filter(lambda tree: isinstance(tree, dict))
)
def test_keys_round_trip(tree: Any) -> None:
    flat = dict_util.flatten_keys_in_mapping(tree)
    assert dict_util.unflatten_keys_in_mapping(flat) == tree


def test_keys_of_spaces() -> None:
    box = BoxSpace(B, 0, 1, np.float32, shape=())
    nested = DictSpace(B, {"a": {"x": box, "y": box}, "b": box})
    flat = dict_util.flatten_keys_in_mapping(nested)
    assert isinstance(flat, DictSpace)
    assert list(flat.keys()) == ["a/x", "a/y", "b"]
    assert dict_util.unflatten_keys_in_mapping(flat) == nested
    assert dict_util.nested_get(nested, ["a", "x"]) is box


def test_nested_get() -> None:
    data = {"a": {"b": 1}}
    assert dict_util.nested_get(data, ["a", "b"]) == 1
    assert dict_util.nested_get(data, "a/b") == 1
    assert dict_util.nested_get(data, []) is data
    assert dict_util.nested_get(data, ["a", "x"], default=7) == 7
    with pytest.raises(KeyError, match="x"):
        dict_util.nested_get(data, ["a", "x"])


@pytest.mark.parametrize("name", [".X", "..X", "json..dumps", "json.", "."])
def test_malformed_names(name: str) -> None:
    with pytest.raises(symbol_util.SymbolError):
        symbol_util.get_class_from_full_name(name)


def test_missing_imports_of_a_module_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although what it misses has a name that its own begins with."""
    (tmp_path / "nowhere_at_all_user.py").write_text("import nowhere_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere_at_all'"):
        symbol_util.get_class_from_full_name("nowhere_at_all_user.X")


def test_joined_keys_that_meet() -> None:
    for nested in ({"a/b": 1, "a": {"b": 2}}, {"a": {"b": 2}, "a/b": 1}):
        with pytest.raises(ValueError, match="'a/b'"):
            dict_util.flatten_keys_in_mapping(nested)
    assert dict_util.flatten_keys_in_mapping(nested, ".") == {"a/b": 1, "a.b": 2}
    box = BoxSpace(B, 0, 1, np.float32)
    with pytest.raises(ValueError, match="'a/b'"):
        dict_util.flatten_keys_in_mapping(DictSpace(B, {"a": {"b": box}, "a/b": box}))


@given(st.integers(0, 2**63))
def test_seeds_are_seeds(seed: int) -> None:
    drawn_seed = seed_util.next_seed(np.random.default_rng(seed))
    assert 0 <= drawn_seed < 2**31
    np.random.default_rng(drawn_seed)


def test_functions_under_a_wrong_name() -> None:
    """A name that leads to another object is not trusted."""

    def loads(text: str) -> str:
        return text

    loads.__module__, loads.__qualname__ = "json", "loads"
    with pytest.raises(symbol_util.SymbolError) if _plain() else contextlib.nullcontext():
        assert symbol_util.serialize_function(loads)["mode"] == "pickle"


def _plain() -> bool:
    return importlib.util.find_spec("cloudpickle") is None
