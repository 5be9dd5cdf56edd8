"""The root of every error of both packages, and the errors of spaces.

    UniEnvError
      SpaceError
        UnsupportedSpaceError   also TypeError
        SpaceMismatchError      also ValueError, AssertionError
        SpaceDefinitionError    also ValueError, AssertionError
      BackendError
        UnknownBackendError     also ValueError
      MissingDependencyError    also ImportError

Each class also derives from the builtin that callers of the original library catch.
"""

from __future__ import annotations

from typing_extensions import override

__all__ = [
    "BackendError",
    "MissingDependencyError",
    "SpaceDefinitionError",
    "SpaceError",
    "SpaceMismatchError",
    "UniEnvError",
    "UnknownBackendError",
    "UnsupportedSpaceError",
]


class UniEnvError(Exception):
    """Root of all errors raised on purpose by this project.

    Keyword arguments become attributes, so that a handler need not parse the message. They
    survive pickling, since errors cross process borders.
    """

    def __init__(self, message: str = "", **facts: object) -> None:
        super().__init__(message)
        self.facts = facts

    def __getattr__(self, name: str) -> object:
        # Only reached when normal lookup fails; `facts` itself may be absent while unpickling.
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @override
    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self.args[0]) if self.args else "", self.facts)


def _rebuild(cls: type[UniEnvError], message: str, facts: dict[str, object]) -> UniEnvError:
    return cls(message, **facts)


class SpaceError(UniEnvError):
    """Something is wrong with a space."""


class UnsupportedSpaceError(SpaceError, TypeError):
    """The operation is not defined for this kind of space."""


class SpaceMismatchError(SpaceError, ValueError, AssertionError):
    """Two spaces, or a space and data, do not belong together."""


class SpaceDefinitionError(SpaceError, ValueError, AssertionError):
    """A space cannot be built from these arguments."""


class BackendError(UniEnvError):
    """Something is wrong with an array backend."""


class UnknownBackendError(BackendError, ValueError):
    """No array backend, dtype or device of this name."""


class MissingDependencyError(UniEnvError, ImportError):
    """An optional package is needed and not installed; the message names the extra."""
