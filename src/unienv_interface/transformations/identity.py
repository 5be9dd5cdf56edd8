"""The transformation that changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import Self, override

from unienv_interface.space.space import Space
from unienv_interface.transformations.transformation import DataTransformation

__all__ = ["IdentityTransformation"]


class IdentityTransformation(DataTransformation):
    """Gives samples and spaces as they are, not copied."""

    has_inverse = True

    @override
    def get_target_space_from_source(self, source_space: Space[Any, Any, Any, Any]) -> Any:
        return source_space

    @override
    def transform(self, source_space: Space[Any, Any, Any, Any], data: Any) -> Any:
        return data

    @override
    def direction_inverse(self, source_space: Space[Any, Any, Any, Any] | None = None) -> Self:
        return self

    @override
    def serialize(self, source_space: Space[Any, Any, Any, Any] | None = None) -> dict[str, Any]:
        return {}

    @classmethod
    @override
    def deserialize_from(
        cls, json_data: Mapping[str, Any], source_space: Space[Any, Any, Any, Any] | None = None
    ) -> Self:
        return cls()
