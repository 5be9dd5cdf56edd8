"""Metadata of spaces: immutable JSON data that says nothing about which samples belong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from typing_extensions import override

__all__ = ["SpaceMetadata"]


class SpaceMetadata(Mapping[str, Any]):
    """A read-only mapping of JSON data; lists are held as tuples.

    Raises:
        TypeError: A value is no JSON data.
    """

    __slots__ = ("_data",)

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        self._data = {_key(key): _frozen(value) for key, value in (data or {}).items()}

    @override
    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    @override
    def __len__(self) -> int:
        return len(self._data)

    @override
    def __eq__(self, other: object) -> bool:
        """Equal to any mapping of the same JSON data, lists in it included."""
        if not isinstance(other, Mapping):
            return NotImplemented
        try:
            theirs = other if isinstance(other, SpaceMetadata) else SpaceMetadata(other)
        except TypeError:  # other things than JSON data
            return False
        return self._data == theirs._data

    @override
    def __hash__(self) -> int:
        return hash(frozenset(self._data.items()))

    @override
    def __repr__(self) -> str:
        return f"SpaceMetadata({self.to_dict()!r})"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: dicts and lists."""
        return {key: _thawed(value) for key, value in self._data.items()}


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"metadata keys are str, got {key!r}")
    return key


def _frozen(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return _frozen(value.item())
    if isinstance(value, Mapping):
        return SpaceMetadata(value)
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(entry) for entry in value)
    raise TypeError(f"metadata is JSON data, got {type(value).__name__}")


def _thawed(value: Any) -> Any:
    if isinstance(value, SpaceMetadata):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_thawed(entry) for entry in value]
    return value
