"""Transformations of samples, with the space of their results, an inverse and a JSON form."""

from __future__ import annotations

from unienv_interface.transformations.identity import IdentityTransformation
from unienv_interface.transformations.serialization_utils import (
    json_to_transformation,
    transformation_to_json,
)
from unienv_interface.transformations.transformation import DataTransformation

__all__ = [
    "DataTransformation",
    "IdentityTransformation",
    "json_to_transformation",
    "transformation_to_json",
]
