"""Array backends: numpy, and torch and jax where they are installed."""

from __future__ import annotations

import sys
from typing import Any

from unienv_interface.backends.base import (
    ArrayAPIArray,
    ArrayAPIGetIndex,
    ArrayAPISetIndex,
    BArrayType,
    BDeviceType,
    BDtypeType,
    BRNGType,
    ComputeBackend,
)
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.backends.serialization import (
    deserialize_backend,
    deserialize_dtype,
    serialize_backend,
    serialize_dtype,
)
from unienv_interface.errors import UnknownBackendError

__all__ = [
    "ArrayAPIArray",
    "ArrayAPIGetIndex",
    "ArrayAPISetIndex",
    "BArrayType",
    "BDeviceType",
    "BDtypeType",
    "BRNGType",
    "ComputeBackend",
    "NumpyComputeBackend",
    "deserialize_backend",
    "deserialize_dtype",
    "get_backend_from_tensor",
    "serialize_backend",
    "serialize_dtype",
]


def get_backend_from_tensor(data: Any) -> Any:
    """The backend of an array.

    Raises:
        UnknownBackendError: It is no array of a known backend.
    """
    if NumpyComputeBackend.is_backendarray(data):
        return NumpyComputeBackend
    for name, library in (("pytorch", "torch"), ("jax", "jax")):
        if library in sys.modules:  # an array cannot exist before
            backend = deserialize_backend(name)
            if backend.is_backendarray(data):
                return backend
    raise UnknownBackendError(f"{type(data).__name__} is no array of a known backend")
