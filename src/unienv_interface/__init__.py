"""Spaces and array backends. Knows nothing of storage."""

from __future__ import annotations

from unienv_interface._clash import check

__all__: list[str] = []

check()
