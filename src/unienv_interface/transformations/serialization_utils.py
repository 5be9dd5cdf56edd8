"""Transformations as JSON data, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unienv_interface.space.space import Space
from unienv_interface.transformations.transformation import DataTransformation
from unienv_interface.utils.symbol_util import (
    SymbolError,
    get_class_from_full_name,
    get_full_class_name,
)

__all__ = ["json_to_transformation", "transformation_to_json"]

_OURS = "unienv_interface.transformations."


def transformation_to_json(
    transformation: DataTransformation, source_space: Space[Any, Any, Any, Any] | None = None
) -> dict[str, Any]:
    """A transformation as JSON data: what it serializes, and its class's name as ``"type"``."""
    data = transformation.serialize(source_space)
    return {**data, "type": get_full_class_name(type(transformation))}


def json_to_transformation(
    json_data: Mapping[str, Any], source_space: Space[Any, Any, Any, Any] | None = None
) -> Any:
    """The transformation of JSON data.

    The data may come from a file, so no module is imported for it but those of this package: the
    program imports the module of another transformation first.

    Raises:
        SymbolError: ``"type"`` is not the name of a transformation (ImportError, ValueError).
    """
    name = json_data.get("type")
    if not isinstance(name, str):
        raise SymbolError(f"a transformation as JSON data has a 'type', got {dict(json_data)}")
    return _class_of(name).deserialize_from(json_data, source_space)


def _class_of(name: str) -> type[DataTransformation]:
    base: Any = DataTransformation
    for known in _descendants(base):
        if get_full_class_name(known) == name:
            return known
    if name.startswith(_OURS):
        found = get_class_from_full_name(name)
        if isinstance(found, type) and issubclass(found, DataTransformation):
            return found
    raise SymbolError(
        f"no transformation is called {name!r}; import the module that defines it first"
    )


def _descendants(base: type[DataTransformation]) -> Iterator[type[DataTransformation]]:
    for child in base.__subclasses__():
        yield child
        yield from _descendants(child)
