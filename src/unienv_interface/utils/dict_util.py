"""Nested dicts and joined keys."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

__all__ = ["flatten_keys_in_mapping", "nested_get", "unflatten_keys_in_mapping"]


def flatten_keys_in_mapping(data: Mapping[str, Any], nested_separator: str = "/") -> dict[str, Any]:
    """One level of joined keys; empty mappings stay as values."""
    result: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            for rest, leaf in flatten_keys_in_mapping(value, nested_separator).items():
                result[f"{key}{nested_separator}{rest}"] = leaf
        else:
            result[key] = value
    return result


def unflatten_keys_in_mapping(
    data: Mapping[str, Any], nested_separator: str = "/"
) -> dict[str, Any]:
    """The reverse of `flatten_keys_in_mapping`.

    Raises:
        ValueError: A key is a value and a prefix of another key at once.
    """
    result: dict[str, Any] = {}
    for joined, value in data.items():
        *parents, last = joined.split(nested_separator)
        level: MutableMapping[str, Any] = result
        for parent in parents:
            level = level.setdefault(parent, {})
            if not isinstance(level, MutableMapping):
                raise ValueError(  # noqa: TRY004 - the keys contradict each other
                    f"{joined!r} lies below a key that has a value already"
                )
        if last in level:
            raise ValueError(f"{joined!r} is a value and a prefix of other keys")
        level[last] = value
    return result


def nested_get(
    data: Any, keys: str | Sequence[str], default: Any = None, nested_separator: str = "/"
) -> Any:
    """The value below joined or listed keys, `default` when there is none."""
    path = keys.split(nested_separator) if isinstance(keys, str) else list(keys)
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return default
    return data
