"""Gymnasium's spaces and ours, both ways."""

from __future__ import annotations

import importlib
from functools import singledispatch
from typing import Any

import numpy as np

from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.errors import MissingDependencyError, UnsupportedSpaceError
from unienv_interface.space.space_utils._dispatch import unsupported
from unienv_interface.space.spaces import (
    BinarySpace,
    BoxSpace,
    DictSpace,
    TextSpace,
    TupleSpace,
    UnionSpace,
)

__all__ = ["from_gymnasium", "to_gymnasium"]


def _gymnasium() -> Any:
    try:
        return importlib.import_module("gymnasium.spaces")
    except ImportError as error:
        raise MissingDependencyError(
            "gymnasium is needed: pip install 'unienv-data[gymnasium]'", extra="gymnasium"
        ) from error


@singledispatch
def to_gymnasium(space: Any) -> Any:
    """Gymnasium's counterpart of a space.

    Box -> Box, Binary -> MultiBinary (of shape (1,) for shape ()), Dict -> Dict, Tuple -> Tuple,
    Union -> OneOf, Text -> Text (whose samples have at least one character unless `min_length`
    is given, and which needs a charset: all printable ASCII stands in for none).

    Raises:
        UnsupportedSpaceError: There is none.
        MissingDependencyError: gymnasium is not installed.
    """
    unsupported("to_gymnasium", space)


@to_gymnasium.register
def _(space: BoxSpace) -> Any:
    space = space.to(NumpyComputeBackend)
    dtype = np.dtype(space.dtype)
    low = np.array(space.low, dtype=dtype)
    high = np.array(space.high, dtype=dtype)
    return _gymnasium().Box(low, high, space.shape, dtype.type)


@to_gymnasium.register
def _(space: BinarySpace) -> Any:
    return _gymnasium().MultiBinary(space.shape or (1,))


@to_gymnasium.register
def _(space: DictSpace) -> Any:
    return _gymnasium().Dict([(key, to_gymnasium(child)) for key, child in space.spaces.items()])


@to_gymnasium.register
def _(space: TupleSpace) -> Any:
    return _gymnasium().Tuple([to_gymnasium(child) for child in space.spaces])


@to_gymnasium.register
def _(space: UnionSpace) -> Any:
    return _gymnasium().OneOf([to_gymnasium(child) for child in space.spaces])


@to_gymnasium.register
def _(space: TextSpace) -> Any:
    charset = space.charset
    if charset is None:
        charset = frozenset(chr(code) for code in range(32, 127))
    return _gymnasium().Text(space.max_length, min_length=space.min_length, charset=charset)


def from_gymnasium(space: Any, backend: Any = NumpyComputeBackend) -> Any:
    """Our counterpart of one of Gymnasium's spaces.

    Box -> Box, Discrete(n, start) -> Box of shape () from start to start + n - 1, MultiDiscrete ->
    Box, MultiBinary -> Binary, Dict -> Dict, Tuple -> Tuple, OneOf -> Union, Text -> Text.

    Args:
        space: Gymnasium's space.
        backend: Array backend of the result.

    Raises:
        UnsupportedSpaceError: There is none (Graph, Sequence).
        MissingDependencyError: gymnasium is not installed.
    """
    made = _from(space, _gymnasium())
    return made.to(backend) if backend is not NumpyComputeBackend else made


def _from(space: Any, gym: Any) -> Any:
    numpy = NumpyComputeBackend
    if isinstance(space, gym.Box):
        return BoxSpace(numpy, space.low, space.high, np.dtype(space.dtype).type, shape=space.shape)
    if isinstance(space, gym.Discrete):
        start, count = int(space.start), int(space.n)
        dtype = np.dtype(space.dtype).type
        return BoxSpace(numpy, start, start + count - 1, dtype, shape=())
    if isinstance(space, gym.MultiDiscrete):
        low = np.asarray(space.start)
        high = low + np.asarray(space.nvec) - 1
        return BoxSpace(numpy, low, high, np.dtype(space.dtype).type, shape=space.shape)
    if isinstance(space, gym.MultiBinary):
        return BinarySpace(numpy, space.shape)
    if isinstance(space, gym.Dict):
        return DictSpace(numpy, [(str(key), _from(child, gym)) for key, child in space.items()])
    if isinstance(space, gym.OneOf):
        return UnionSpace(numpy, [_from(child, gym) for child in space.spaces])
    if isinstance(space, gym.Tuple):
        return TupleSpace(numpy, [_from(child, gym) for child in space.spaces])
    if isinstance(space, gym.Text):
        return TextSpace(
            numpy, space.max_length, min_length=space.min_length, charset=space.character_set
        )
    kind = type(space).__name__
    raise UnsupportedSpaceError(f"Gymnasium's {kind} has no counterpart here", found=kind)
