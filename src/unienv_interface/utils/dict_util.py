"""Nested dicts and joined keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unienv_interface.space.spaces.dict import DictSpace

__all__ = ["flatten_keys_in_mapping", "nested_get", "unflatten_keys_in_mapping"]

_RAISE = object()


def flatten_keys_in_mapping(data: Any, nested_separator: str = "/") -> Any:
    """One level of joined keys; empty mappings stay as values.

    Args:
        data: A nested mapping, or a DictSpace.
        nested_separator: What joins the keys.

    Returns:
        A dict, or a DictSpace of a DictSpace.

    Raises:
        ValueError: Two values would have the same joined key.
    """
    if isinstance(data, DictSpace):
        leaves = list(_flattened(data.spaces, nested_separator).items())
        return DictSpace(data.backend, leaves, data.device, data.metadata)
    return _flattened(data, nested_separator)


def _flattened(data: Mapping[str, Any], separator: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in data.items():
        inner = value.spaces if isinstance(value, DictSpace) else value
        if isinstance(inner, Mapping) and inner:
            leaves = {
                f"{key}{separator}{rest}": leaf
                for rest, leaf in _flattened(inner, separator).items()
            }
        else:
            leaves = {key: value}
        for joined, leaf in leaves.items():
            if joined in result:
                raise ValueError(f"two values would have the key {joined!r}")
            result[joined] = leaf
    return result


def unflatten_keys_in_mapping(data: Any, nested_separator: str = "/") -> Any:
    """The reverse of `flatten_keys_in_mapping`.

    Raises:
        ValueError: A key is a value and a prefix of another key at once.
    """
    if isinstance(data, DictSpace):
        nested = _unflattened(data.spaces, nested_separator)
        return DictSpace(data.backend, list(nested.items()), data.device, data.metadata)
    return _unflattened(data, nested_separator)


def _unflattened(data: Mapping[str, Any], separator: str) -> dict[str, Any]:
    groups: dict[str, Any] = {}
    below: dict[str, dict[str, Any]] = {}
    for joined, value in data.items():
        first, separated, rest = joined.partition(separator)
        if first in groups and (not separated or first not in below):
            raise ValueError(f"the key {first!r} is a value and a prefix of other keys at once")
        if separated:
            groups[first] = None  # filled in below; keeps the order
            below.setdefault(first, {})[rest] = value
        else:
            groups[first] = value
    for first, inner in below.items():
        groups[first] = _unflattened(inner, separator)
    return groups


def nested_get(
    data: Any,
    chained_key: str | Sequence[Any],
    default: Any = _RAISE,
    nested_separator: str = "/",
) -> Any:
    """The value below a chain of keys.

    Args:
        data: Nested mappings or DictSpaces.
        chained_key: The keys, or one text of joined keys.
        default: What to give when there is no such value, instead of raising.
        nested_separator: What joins the keys of a text.

    Raises:
        KeyError: There is no such value.
    """
    path = chained_key.split(nested_separator) if isinstance(chained_key, str) else chained_key
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            if default is _RAISE:
                raise KeyError(key) from None
            return default
    return data
