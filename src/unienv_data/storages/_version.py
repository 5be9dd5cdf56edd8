"""Name and version that manifests carry."""

from __future__ import annotations

from importlib import metadata

__all__ = ["WRITER"]


def _writer() -> str:
    try:
        return f"unienv-data {metadata.version('unienv-data')}"
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "unienv-data"


WRITER = _writer()
"""``unienv-data <version>``."""
