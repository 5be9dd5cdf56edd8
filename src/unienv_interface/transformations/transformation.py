"""The base of all transformations."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from typing_extensions import Self

from unienv_interface.space.space import Space

__all__ = ["DataTransformation"]


class DataTransformation(abc.ABC):
    """Turns samples of one space into samples of another.

    Attributes:
        has_inverse: Whether `direction_inverse` gives a transformation.
    """

    has_inverse: bool = False

    @abc.abstractmethod
    def get_target_space_from_source(self, source_space: Space[Any, Any, Any, Any]) -> Any:
        """The space of the results."""

    @abc.abstractmethod
    def transform(self, source_space: Space[Any, Any, Any, Any], data: Any) -> Any:
        """The result for a sample of `source_space`."""

    def direction_inverse(self, source_space: Space[Any, Any, Any, Any] | None = None) -> Any:
        """The transformation back.

        Args:
            source_space: Space of the samples this one takes; some need it.

        Returns:
            The transformation, or None where there is none.
        """
        return None

    @abc.abstractmethod
    def serialize(self, source_space: Space[Any, Any, Any, Any] | None = None) -> dict[str, Any]:
        """What `deserialize_from` needs, as JSON data."""

    @classmethod
    @abc.abstractmethod
    def deserialize_from(
        cls, json_data: Mapping[str, Any], source_space: Space[Any, Any, Any, Any] | None = None
    ) -> Self:
        """The transformation that `serialize` described."""

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Releases what it holds; it is not used any more afterwards."""
