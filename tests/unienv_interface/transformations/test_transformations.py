"""The base of transformations, and the one that changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import unienv_interface.transformations as package
from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.space import BoxSpace
from unienv_interface.transformations import (
    DataTransformation,
    IdentityTransformation,
    json_to_transformation,
    transformation_to_json,
)

SPACE = BoxSpace(B, 0, 1, np.float32, shape=(2,))


class Scaled(DataTransformation):
    def __init__(self, factor: float) -> None:
        self.factor = factor

    @override
    def get_target_space_from_source(self, source_space: Any) -> Any:
        high = source_space.high * self.factor
        return BoxSpace(source_space.backend, 0, high, source_space.dtype)

    @override
    def transform(self, source_space: Any, data: Any) -> Any:
        return data * np.float32(self.factor)

    @override
    def serialize(self, source_space: Any = None) -> dict[str, Any]:
        return {"factor": self.factor}

    @classmethod
    @override
    def deserialize_from(cls, json_data: Mapping[str, Any], source_space: Any = None) -> Scaled:
        return cls(json_data["factor"])


def test_names_of_the_package() -> None:
    assert sorted(package.__all__) == package.__all__
    for name in package.__all__:
        assert hasattr(package, name)


def test_identity() -> None:
    identity = IdentityTransformation()
    data = np.ones(2, np.float32)
    assert identity.has_inverse
    assert identity.direction_inverse() is identity
    assert identity.get_target_space_from_source(SPACE) is SPACE
    assert identity.transform(SPACE, data) is data
    identity.close()


def test_base() -> None:
    with pytest.raises(TypeError):
        DataTransformation()  # type: ignore[abstract]
    scaled = Scaled(2)
    assert not scaled.has_inverse
    assert scaled.direction_inverse() is None
    result = scaled.transform(SPACE, np.ones(2, np.float32))
    assert scaled.get_target_space_from_source(SPACE).contains(result)
    scaled.close()


def test_json() -> None:
    data = transformation_to_json(IdentityTransformation())
    assert data == {"type": "unienv_interface.transformations.identity.IdentityTransformation"}
    assert isinstance(json_to_transformation(data, SPACE), IdentityTransformation)
    again = json_to_transformation(json.loads(json.dumps(transformation_to_json(Scaled(3)))))
    assert isinstance(again, Scaled)
    assert again.factor == 3


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"type": 3},
        {"type": "nowhere.X"},
        {"type": "json.JSONDecoder"},
        {"type": "unienv_interface.transformations.serialization_utils.json_to_transformation"},
        {"type": "unienv_interface.transformations.nowhere.X"},
    ],
)
def test_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        json_to_transformation(data)


def test_no_foreign_module_is_imported() -> None:
    import sys

    sys.modules.pop("antigravity", None)
    with pytest.raises(ImportError, match="import the module"):
        json_to_transformation({"type": "this.X"})
    assert "this" not in sys.modules
