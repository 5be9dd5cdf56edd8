"""The numpy backend."""

from __future__ import annotations

import types
from typing import Any, ClassVar, TypeAlias

import array_api_compat.numpy as _namespace
import numpy as np
from typing_extensions import override

from unienv_interface.backends.base import ComputeBackend, IndexedUpdate, Shape
from unienv_interface.errors import UnknownBackendError

__all__ = [
    "NumpyArrayType",
    "NumpyComputeBackend",
    "NumpyDeviceType",
    "NumpyDtypeType",
    "NumpyRNGType",
]

NumpyArrayType: TypeAlias = np.ndarray[Any, Any]
NumpyDeviceType: TypeAlias = Any
NumpyDtypeType: TypeAlias = np.dtype[Any]
NumpyRNGType: TypeAlias = np.random.Generator


class _Update(IndexedUpdate):
    """A read-only array is copied first."""

    @override
    def _writable(self) -> Any:
        return self._array if self._array.flags.writeable else self._array.copy()


class _Random:
    """Random numbers; every function returns the same generator and a new array."""

    @staticmethod
    def random_number_generator(
        seed: int | None = None, *, device: Any = None
    ) -> np.random.Generator:
        """A new generator."""
        return np.random.default_rng(seed)

    @staticmethod
    def random_discrete_uniform(
        shape: Shape,
        /,
        from_num: int,
        to_num: int,
        *,
        rng: Any,
        dtype: Any = None,
        device: Any = None,
    ) -> Any:
        """Integers of ``[from_num, to_num)``."""
        wanted = np.dtype(np.int64 if dtype is None else dtype)
        if wanted.kind in "iu":
            return rng, np.asarray(rng.integers(from_num, to_num, shape, dtype=wanted))
        return rng, np.asarray(rng.integers(from_num, to_num, shape)).astype(wanted)

    @staticmethod
    def random_uniform(
        shape: Shape,
        /,
        low: float = 0.0,
        high: float = 1.0,
        *,
        rng: Any,
        dtype: Any = None,
        device: Any = None,
    ) -> Any:
        """Floats of ``[low, high)``."""
        return rng, _cast(rng.uniform(low, high, shape), dtype)

    @staticmethod
    def random_normal(
        shape: Shape,
        /,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        rng: Any,
        dtype: Any = None,
        device: Any = None,
    ) -> Any:
        """Normally distributed floats."""
        return rng, _cast(rng.normal(mean, std, shape), dtype)

    @staticmethod
    def random_exponential(
        shape: Shape, /, lambd: float = 1.0, *, rng: Any, dtype: Any = None, device: Any = None
    ) -> Any:
        """Exponentially distributed floats of rate `lambd`."""
        return rng, _cast(rng.exponential(1.0 / lambd, shape), dtype)

    @staticmethod
    def random_geometric(
        shape: Shape, /, p: float, *, rng: Any, dtype: Any = None, device: Any = None
    ) -> Any:
        """Numbers of trials up to the first success, from 1 on."""
        return rng, _cast(rng.geometric(p, shape), np.int64 if dtype is None else dtype)

    @staticmethod
    def random_permutation(n: int, /, *, rng: Any, dtype: Any = None, device: Any = None) -> Any:
        """The numbers ``0 .. n-1`` in random order."""
        return rng, _cast(rng.permutation(n), dtype)


def _kind(dtype: Any) -> str:
    """Letter of a dtype's kind; "?" when it is none of numpy's."""
    try:
        return "?" if dtype is None else np.dtype(dtype).kind
    except TypeError:
        return "?"


def _cast(values: Any, dtype: Any) -> Any:
    array = np.asarray(values)
    return array if dtype is None else array.astype(dtype, copy=False)


class NumpyComputeBackend(
    ComputeBackend[NumpyArrayType, NumpyDeviceType, NumpyDtypeType, NumpyRNGType]
):
    """numpy arrays on the CPU."""

    simplified_name: ClassVar[str] = "numpy"
    default_integer_dtype: ClassVar[Any] = int
    default_index_dtype: ClassVar[Any] = int
    default_floating_dtype: ClassVar[Any] = float
    default_boolean_dtype: ClassVar[Any] = bool
    random: ClassVar[Any] = _Random
    ARRAY_TYPE: ClassVar[Any] = np.ndarray
    DEVICE_TYPE: ClassVar[Any] = Any
    DTYPE_TYPE: ClassVar[Any] = np.dtype
    RNG_TYPE: ClassVar[Any] = np.random.Generator

    @classmethod
    @override
    def namespace(cls) -> types.ModuleType:
        module: types.ModuleType = _namespace
        return module

    @staticmethod
    @override
    def is_backendarray(data: Any) -> bool:
        return isinstance(data, np.ndarray)

    @staticmethod
    @override
    def from_numpy(data: Any, *, dtype: Any = None, device: Any = None) -> Any:
        return data

    @staticmethod
    @override
    def to_numpy(data: Any) -> Any:
        return data

    @staticmethod
    @override
    def concrete_dtype(dtype: Any) -> Any:
        return np.dtype(dtype)

    @staticmethod
    @override
    def dtype_is_real_integer(dtype: Any) -> bool:
        return _kind(dtype) in "iu"

    @staticmethod
    @override
    def dtype_is_real_floating(dtype: Any) -> bool:
        return _kind(dtype) in "f"

    @staticmethod
    @override
    def dtype_is_boolean(dtype: Any) -> bool:
        return _kind(dtype) in "b"

    @staticmethod
    @override
    def device(data: Any) -> Any:
        return "cpu"

    @staticmethod
    @override
    def to_device(data: Any, device: Any) -> Any:
        if device not in ("cpu", None):
            raise UnknownBackendError(f"numpy arrays lie on 'cpu', not on {device!r}", found=device)
        return data

    @staticmethod
    @override
    def serialize_device(device: Any) -> Any:
        return None

    @staticmethod
    @override
    def deserialize_device(data: Any) -> Any:
        return None

    @staticmethod
    @override
    def at(data: Any) -> Any:
        return _Update(data)
