"""The jax backend. Importable without jax; using it then names the extra to install."""

from __future__ import annotations

import secrets
import types
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from unienv_interface.backends.base import BackendMeta, ComputeBackend, Shape
from unienv_interface.errors import BackendError, MissingDependencyError

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
else:
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        jax = jnp = None

__all__ = [
    "JaxArrayType",
    "JaxComputeBackend",
    "JaxDeviceType",
    "JaxDtypeType",
    "JaxRNGType",
]

JaxArrayType: Any = Any if jax is None else jax.Array
JaxDeviceType: Any = Any if jax is None else jax.Device
JaxDtypeType: Any = np.dtype
JaxRNGType: Any = Any if jax is None else jax.Array


def _require() -> Any:
    if jax is None:
        raise MissingDependencyError(
            "the jax backend needs jax: pip install 'unienv-data[jax]'", extra="jax"
        )
    return jax


class _Random:
    """Random numbers; a generator is a key, and every function returns a fresh one."""

    @staticmethod
    def random_number_generator(seed: int | None = None, *, device: Any = None) -> Any:
        """A new key, of a seed from the operating system when none is given."""
        key = _require().random.key(secrets.randbits(31) if seed is None else seed)
        return _placed(key, device)

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
        rng, key = _require().random.split(rng)
        kind = jnp.zeros((), int).dtype
        values = jax.random.randint(key, _axes(shape), from_num, to_num, kind)
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
        rng, key = _require().random.split(rng)
        return rng, _placed(
            jax.random.uniform(key, _axes(shape), _floating(dtype), low, high), device
        )

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
        rng, key = _require().random.split(rng)
        values = jax.random.normal(key, _axes(shape), _floating(dtype))
        return rng, _placed(values * std + mean, device)

    @staticmethod
    def random_exponential(
        shape: Shape, /, lambd: float = 1.0, *, rng: Any, dtype: Any = None, device: Any = None
    ) -> Any:
        """Exponentially distributed floats of rate `lambd`."""
        rng, key = _require().random.split(rng)
        values = jax.random.exponential(key, _axes(shape), _floating(dtype))
        return rng, _placed(values / lambd, device)

    @staticmethod
    def random_geometric(
        shape: Shape, /, p: float, *, rng: Any, dtype: Any = None, device: Any = None
    ) -> Any:
        """Numbers of trials up to the first success, from 1 on."""
        rng, key = _require().random.split(rng)
        return rng, _placed(jax.random.geometric(key, p, _axes(shape)), device, dtype)

    @staticmethod
    def random_permutation(n: int, /, *, rng: Any, dtype: Any = None, device: Any = None) -> Any:
        """The numbers ``0 .. n-1`` in random order."""
        rng, key = _require().random.split(rng)
        return rng, _placed(jax.random.permutation(key, n), device, dtype)


def _axes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _floating(dtype: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(float if dtype is None else dtype)


def _placed(values: Any, device: Any, dtype: Any = None) -> Any:
    if dtype is not None:
        values = values.astype(jax.dtypes.canonicalize_dtype(dtype))
    return values if device is None else jax.device_put(values, device)


class _Update:
    """`at(x)[index]`: `set` and `add` return a new array."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> Any:
        return self._array.at[index]


class _JaxMeta(BackendMeta):
    """Looks defaults up when they are asked for: there may be no jax."""

    @override
    def __getattr__(cls, name: str) -> Any:  # noqa: N805 - ruff does not see the metaclass
        if name in _LATE:
            return _LATE[name](_require())
        return super().__getattr__(name)


_LATE: dict[str, Any] = {
    # What jax makes of Python's numbers depends on its 64-bit mode.
    "default_integer_dtype": lambda j: j.numpy.zeros((), int).dtype,
    "default_index_dtype": lambda j: j.numpy.zeros((), int).dtype,
    "default_floating_dtype": lambda j: j.numpy.zeros((), float).dtype,
    "default_boolean_dtype": lambda _: np.dtype(bool),
    "ARRAY_TYPE": lambda j: j.Array,
    "DEVICE_TYPE": lambda j: j.Device,
    "DTYPE_TYPE": lambda _: np.dtype,
    "RNG_TYPE": lambda j: j.Array,
}


class JaxComputeBackend(ComputeBackend[Any, Any, Any, Any], metaclass=_JaxMeta):
    """jax arrays on any device.

    Unless jax's 64-bit mode is on, it has no 64-bit numbers: 64-bit floats are rounded, and
    integers that would not survive are refused.
    """

    simplified_name: ClassVar[str] = "jax"
    random: ClassVar[Any] = _Random

    @classmethod
    @override
    def namespace(cls) -> types.ModuleType:
        _require()
        module: types.ModuleType = jnp
        return module

    @staticmethod
    @override
    def is_backendarray(data: Any) -> bool:
        return jax is not None and isinstance(data, jax.Array)

    @staticmethod
    @override
    def from_numpy(data: Any, *, dtype: Any = None, device: Any = None) -> Any:
        _require()
        values = np.asarray(data)
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        array = jnp.array(values)  # a copy: jax takes arrays for unchangeable
        if values.dtype.kind in "iu" and array.dtype.itemsize < values.dtype.itemsize:
            limits = np.iinfo(array.dtype)
            if values.size and (values.min() < limits.min or values.max() > limits.max):
                raise BackendError(
                    f"jax keeps {values.dtype} as {array.dtype}, which cannot hold these values; "
                    "turn on its 64-bit mode with jax.config.update('jax_enable_x64', True)",
                    found=values.dtype,
                )
        return _placed(array, device, dtype)

    @staticmethod
    @override
    def to_numpy(data: Any) -> Any:
        if data.dtype.kind == "V":  # bfloat16 and its like, which numpy has not
            data = data.astype(np.float32)
        return np.asarray(data)

    @staticmethod
    @override
    def concrete_dtype(dtype: Any) -> Any:
        return _require().dtypes.canonicalize_dtype(dtype)

    @staticmethod
    @override
    def dtype_is_real_integer(dtype: Any) -> bool:
        return _is_kind(dtype, "integer")

    @staticmethod
    @override
    def dtype_is_real_floating(dtype: Any) -> bool:
        return _is_kind(dtype, "floating")

    @staticmethod
    @override
    def dtype_is_boolean(dtype: Any) -> bool:
        return _is_kind(dtype, "bool_")

    @staticmethod
    @override
    def device(data: Any) -> Any:
        return data.device

    @staticmethod
    @override
    def to_device(data: Any, device: Any) -> Any:
        return _placed(data, device)

    @staticmethod
    @override
    def serialize_device(device: Any) -> Any:
        return None if device is None else f"{device.platform}:{device.id}"

    @staticmethod
    @override
    def deserialize_device(data: Any) -> Any:
        if data is None:
            return None
        platform, _, number = str(data).partition(":")
        return _require().devices(platform)[int(number or 0)]

    @staticmethod
    @override
    def at(data: Any) -> Any:
        return _Update(data)


def _is_kind(dtype: Any, kind: str) -> bool:
    _require()
    try:
        return dtype is not None and bool(jnp.issubdtype(dtype, getattr(jnp, kind)))
    except TypeError:
        return False
