"""The answer of a family to a space it does not know."""

from __future__ import annotations

from typing import Any, NoReturn

from unienv_interface.errors import UnsupportedSpaceError

__all__ = ["UnsupportedOperationError", "unsupported"]


class UnsupportedOperationError(UnsupportedSpaceError, NotImplementedError):
    """The space is fine, the operation has no meaning for it."""


def unsupported(operation: str, space: Any) -> NoReturn:
    """Raises for a space without this operation."""
    raise UnsupportedOperationError(
        f"{operation} is not defined for {type(space).__name__}", found=type(space).__name__
    )
