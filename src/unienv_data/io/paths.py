"""Paths that stay true when the process changes its directory."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["absolute"]


def absolute(path: str | os.PathLike[str]) -> Path:
    """A path as it is meant now, whatever directory the process changes to later."""
    return Path(os.path.abspath(path))
