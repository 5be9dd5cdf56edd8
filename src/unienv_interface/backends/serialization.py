"""Backends and dtypes by name, for files."""

from __future__ import annotations

from typing import Any

import numpy as np

from unienv_interface.backends.base import ComputeBackend
from unienv_interface.errors import UnknownBackendError

__all__ = [
    "deserialize_backend",
    "deserialize_dtype",
    "same_dtype",
    "serialize_backend",
    "serialize_dtype",
]

_DTYPES = (
    "bool",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)


def serialize_backend(backend: type[ComputeBackend[Any, Any, Any, Any]]) -> str:
    """Name of a backend."""
    return str(backend.simplified_name)


def deserialize_backend(name: str) -> Any:
    """The backend of a name.

    Raises:
        UnknownBackendError: No backend has this name.
    """
    if name == "numpy":
        from unienv_interface.backends.numpy import NumpyComputeBackend

        return NumpyComputeBackend
    if name == "pytorch":
        from unienv_interface.backends.pytorch import PyTorchComputeBackend

        return PyTorchComputeBackend
    if name == "jax":
        from unienv_interface.backends.jax import JaxComputeBackend

        return JaxComputeBackend
    raise UnknownBackendError(f"no array backend is called {name!r}; there are numpy, pytorch, jax")


def serialize_dtype(backend: Any, dtype: Any) -> str | None:
    """Array API name of a dtype; None stays None.

    Raises:
        UnknownBackendError: It has no such name (ValueError).
    """
    if dtype is None:
        return None
    name: str
    if backend.simplified_name == "pytorch" and dtype not in (bool, int, float):
        name = str(dtype).rpartition(".")[2]
    else:
        try:
            name = str(np.dtype(dtype).name)
        except TypeError:
            name = str(dtype)
    if name not in _DTYPES:
        raise UnknownBackendError(f"dtype {dtype!r} of {backend!r} has no array API name")
    return name


def same_dtype(backend: Any, first: Any, second: Any) -> bool:
    """Whether two spellings, such as `bool` and `numpy.bool_`, are one dtype."""
    if first is second or first == second:
        return True
    try:
        return serialize_dtype(backend, first) == serialize_dtype(backend, second)
    except ValueError:
        return False


def deserialize_dtype(backend: Any, name: str | None) -> Any:
    """The dtype of an array API name; None stays None.

    Raises:
        UnknownBackendError: No dtype has this name (ValueError).
    """
    if name is None:
        return None
    if name not in _DTYPES:
        raise UnknownBackendError(f"{name!r} is no array API dtype")
    return getattr(backend, name) if backend.simplified_name == "pytorch" else np.dtype(name)
