"""The torch backend. Importable without torch; using it then names the extra to install."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from unienv_interface.backends.base import BackendMeta, ComputeBackend, Shape
from unienv_interface.errors import MissingDependencyError

if TYPE_CHECKING:
    import torch
    from array_api_compat import torch as _namespace
else:
    try:
        import torch
        from array_api_compat import torch as _namespace
    except ImportError:
        torch = _namespace = None

__all__ = [
    "PyTorchArrayType",
    "PyTorchComputeBackend",
    "PyTorchDeviceType",
    "PyTorchDtypeType",
    "PyTorchRNGType",
]

PyTorchArrayType: Any = Any if torch is None else torch.Tensor
PyTorchDeviceType: Any = Any if torch is None else torch.device | str
PyTorchDtypeType: Any = Any if torch is None else torch.dtype
PyTorchRNGType: Any = Any if torch is None else torch.Generator


def _require() -> Any:
    if torch is None:
        raise MissingDependencyError(
            "the torch backend needs torch: pip install 'unienv-data[torch]'", extra="torch"
        )
    return torch


class _Random:
    """Random numbers; every function returns the same generator and a new tensor."""

    @staticmethod
    def random_number_generator(seed: int | None = None, *, device: Any = None) -> Any:
        """A new generator on a device."""
        generator = _require().Generator(device=device if device is not None else "cpu")
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed)
        return generator

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
        values = _require().randint(
            from_num, to_num, _axes(shape), generator=rng, dtype=torch.int64, device=rng.device
        )
        return rng, _placed(values, device, dtype)

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
        values = _require().rand(
            _axes(shape), generator=rng, dtype=_as_dtype(dtype), device=rng.device
        )
        return rng, _placed(values * (high - low) + low, device)

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
        values = _require().randn(
            _axes(shape), generator=rng, dtype=_as_dtype(dtype), device=rng.device
        )
        return rng, _placed(values * std + mean, device)

    @staticmethod
    def random_exponential(
        shape: Shape, /, lambd: float = 1.0, *, rng: Any, dtype: Any = None, device: Any = None
    ) -> Any:
        """Exponentially distributed floats of rate `lambd`."""
        values = _require().empty(_axes(shape), dtype=_as_dtype(dtype), device=rng.device)
        return rng, _placed(values.exponential_(lambd, generator=rng), device)

    @staticmethod
    def random_geometric(
        shape: Shape, /, p: float, *, rng: Any, dtype: Any = None, device: Any = None
    ) -> Any:
        """Numbers of trials up to the first success, from 1 on."""
        values = _require().empty(_axes(shape), dtype=torch.int64, device=rng.device)
        return rng, _placed(values.geometric_(p, generator=rng), device, dtype)

    @staticmethod
    def random_permutation(n: int, /, *, rng: Any, dtype: Any = None, device: Any = None) -> Any:
        """The numbers ``0 .. n-1`` in random order."""
        values = _require().randperm(n, generator=rng, device=rng.device)
        return rng, _placed(values, device, dtype)


def _axes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _placed(values: Any, device: Any, dtype: Any = None) -> Any:
    if device is None and dtype is None:
        return values
    return values.to(device=device, dtype=_as_dtype(dtype))


class _PyTorchMeta(BackendMeta):
    """Looks defaults up when they are asked for: there may be no torch."""

    @override
    def __getattr__(cls, name: str) -> Any:  # noqa: N805 - ruff does not see the metaclass
        if name in _LATE:
            return _LATE[name](_require())
        return super().__getattr__(name)


_LATE: dict[str, Any] = {
    "default_integer_dtype": lambda t: t.int32,
    "default_index_dtype": lambda t: t.int64,
    "default_floating_dtype": lambda t: t.get_default_dtype(),
    "default_boolean_dtype": lambda t: t.bool,
    "float16": lambda t: t.float16,
    "bfloat16": lambda t: t.bfloat16,
    "ARRAY_TYPE": lambda t: t.Tensor,
    "DEVICE_TYPE": lambda t: t.device,
    "DTYPE_TYPE": lambda t: t.dtype,
    "RNG_TYPE": lambda t: t.Generator,
}


class PyTorchComputeBackend(ComputeBackend[Any, Any, Any, Any], metaclass=_PyTorchMeta):
    """torch tensors on any device."""

    simplified_name: ClassVar[str] = "pytorch"
    random: ClassVar[Any] = _Random

    @classmethod
    @override
    def namespace(cls) -> types.ModuleType:
        _require()
        module: types.ModuleType = _namespace
        return module

    @staticmethod
    @override
    def is_backendarray(data: Any) -> bool:
        return torch is not None and isinstance(data, torch.Tensor)

    @staticmethod
    @override
    def from_numpy(data: Any, *, dtype: Any = None, device: Any = None) -> Any:
        array = np.asarray(data)
        if not array.flags.writeable or not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="), copy=True)
        if any(stride < 0 for stride in array.strides):
            array = array.copy()  # torch has no negative strides
        usual = np.dtype(array.dtype.str)
        if array.dtype.num != usual.num:  # such as C's unsigned long long, which torch knows not
            array = array.view(usual)
        return _placed(_require().from_numpy(array), device, dtype)

    @staticmethod
    @override
    def to_numpy(data: Any) -> Any:
        if data.dtype == _require().bfloat16:  # numpy has none
            data = data.float()
        return data.numpy(force=True)

    @staticmethod
    @override
    def concrete_dtype(dtype: Any) -> Any:
        return _as_dtype(dtype)

    @staticmethod
    @override
    def orders(dtype: Any) -> bool:
        return dtype not in (torch.uint16, torch.uint32, torch.uint64)

    @staticmethod
    @override
    def dtype_is_real_integer(dtype: Any) -> bool:
        return _family(dtype) == "integer"

    @staticmethod
    @override
    def dtype_is_real_floating(dtype: Any) -> bool:
        return _family(dtype) == "floating"

    @staticmethod
    @override
    def dtype_is_boolean(dtype: Any) -> bool:
        return _family(dtype) == "boolean"

    @staticmethod
    @override
    def device(data: Any) -> Any:
        return data.device

    @staticmethod
    @override
    def to_device(data: Any, device: Any) -> Any:
        return data if device is None else data.to(device)

    @staticmethod
    @override
    def serialize_device(device: Any) -> Any:
        return None if device is None else str(device)

    @staticmethod
    @override
    def deserialize_device(data: Any) -> Any:
        return None if data is None else _require().device(data)


def _as_dtype(dtype: Any) -> Any:
    known = {bool: _require().bool, int: torch.int64, float: torch.float64}
    return known[dtype] if isinstance(dtype, type) and dtype in known else dtype


def _family(dtype: Any) -> str:
    kind = _as_dtype(dtype)
    if not isinstance(kind, torch.dtype) or kind.is_complex:
        return "other"
    if kind.is_floating_point:
        return "floating"
    return "boolean" if kind == torch.bool else "integer"
