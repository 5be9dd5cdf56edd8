"""The tree of errors: what each is caught as, and the facts it carries."""

from __future__ import annotations

import copy
import pickle

import pytest

from unienv_interface import errors
from unienv_interface.backends import deserialize_backend
from unienv_interface.errors import (
    BackendError,
    MissingDependencyError,
    SpaceDefinitionError,
    SpaceError,
    SpaceMismatchError,
    UniEnvError,
    UnknownBackendError,
    UnsupportedSpaceError,
)
from unienv_interface.space.space_utils._dispatch import UnsupportedOperationError
from unienv_interface.space.space_utils.construct_utils import UnsupportedDataError
from unienv_interface.utils.symbol_util import SymbolError

ALL: list[type[UniEnvError]] = [getattr(errors, name) for name in errors.__all__]
ALL += [SymbolError, UnsupportedDataError, UnsupportedOperationError]


def test_names() -> None:
    assert sorted(errors.__all__) == errors.__all__


@pytest.mark.parametrize(
    ("error", "kinds"),
    [
        (UnsupportedSpaceError, (SpaceError, TypeError)),
        (SpaceMismatchError, (SpaceError, ValueError, AssertionError)),
        (SpaceDefinitionError, (SpaceError, ValueError, AssertionError)),
        (UnknownBackendError, (BackendError, ValueError)),
        (MissingDependencyError, (ImportError,)),
        (SymbolError, (ImportError, ValueError)),
        (UnsupportedDataError, (UnsupportedSpaceError, ValueError)),
        (UnsupportedOperationError, (UnsupportedSpaceError, NotImplementedError)),
    ],
)
def test_caught_as(error: type[UniEnvError], kinds: tuple[type[Exception], ...]) -> None:
    assert issubclass(error, UniEnvError)
    assert all(issubclass(error, kind) for kind in kinds)


@pytest.mark.parametrize("kind", ALL)
def test_facts_survive_copies(kind: type[UniEnvError]) -> None:
    error = kind("no such thing", column="obs", expected=(2,), found="float64")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for other in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error)):
            assert type(other) is kind
            assert str(other) == "no such thing"
            assert other.facts == {"column": "obs", "expected": (2,), "found": "float64"}
            assert (other.column, other.expected, other.found) == ("obs", (2,), "float64")


@pytest.mark.parametrize("kind", ALL)
def test_without_facts(kind: type[UniEnvError]) -> None:
    error = pickle.loads(pickle.dumps(kind()))
    assert str(error) == ""
    assert error.facts == {}
    with pytest.raises(AttributeError, match=f"'{kind.__name__}' object has no attribute 'column'"):
        error.column  # noqa: B018


def test_attributes_before_the_facts_are_there() -> None:
    bare = UniEnvError.__new__(UniEnvError)
    with pytest.raises(AttributeError, match="found"):
        bare.found  # noqa: B018


def test_raised_with_facts() -> None:
    with pytest.raises(UnknownBackendError) as caught:
        deserialize_backend("numpy").to_device(deserialize_backend("numpy").zeros(1), "cuda")
    assert caught.value.found == "cuda"
