"""JSON objects that carry a checksum of themselves, so that no changed number is believed.

The checksum is the CRC-32 of the parsed object without that key, so a program that only lays the
text out anew keeps it; `docs/format.md` says how it is computed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from unienv_data.errors import ManifestError

__all__ = ["CHECKSUM_KEY", "load_object", "parse_object", "sealed", "verified"]

CHECKSUM_KEY = "checksum"
"""Last key of a checked object."""

_PREFIX = "crc32:"


def _digest(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"))
    return f"{_PREFIX}{zlib.crc32(text.encode()):08x}"


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its checksum as last key."""
    plain = {key: value for key, value in data.items() if key != CHECKSUM_KEY}
    return {**plain, CHECKSUM_KEY: _digest(plain)}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a key appears twice")
    return data


def parse_object(text: bytes, path: str, remedy: str) -> dict[str, Any]:
    """Parses a JSON object, verifies its checksum and leaves it out.

    Args:
        text: The file's bytes.
        path: For errors.
        remedy: For errors: what the reader may do.

    Raises:
        ManifestError: No JSON object, a key that appears twice, or another checksum.
    """
    return verified(load_object(text, path, remedy), path, remedy)


def load_object(text: bytes, path: str, remedy: str) -> dict[str, Any]:
    """Parses a JSON object, and leaves its checksum in.

    Raises:
        ManifestError: No JSON object, or a key that appears twice.
    """
    try:
        data = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path} is no JSON text ({error}); {remedy}", path=path) from error
    if not isinstance(data, dict):
        raise ManifestError(f"{path} holds no JSON object; {remedy}", path=path)
    return data


def verified(
    data: dict[str, Any], path: str, remedy: str, *, required: bool = False
) -> dict[str, Any]:
    """The object without its checksum; one without any is of the original library or of 1.0.

    Raises:
        ManifestError: It has another checksum.
    """
    claimed = data.pop(CHECKSUM_KEY, None)
    if claimed is None:
        # A key of ours whose name is damaged would switch the check off.
        renamed = any(isinstance(v, str) and v.startswith(_PREFIX) for v in data.values())
        if renamed or required:
            raise ManifestError(f"{path} lacks its checksum; {remedy}", path=path)
        return data
    try:
        found = _digest(data)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path} cannot be verified ({error}); {remedy}", path=path) from error
    if claimed != found:
        raise ManifestError(
            f"{path} was changed since it was written: its checksum is {claimed!r:.40}, its "
            f"content has {found!r}; {remedy}",
            path=path,
            expected=claimed,
            found=found,
        )
    return data
