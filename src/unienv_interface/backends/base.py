"""What every array backend offers: the array API, and a dozen functions beside it.

A backend is a class that is never instantiated: a namespace that can be passed around, compared
with `is`, and pickled by name. Functions of the array API standard are looked up in the module
that array-api-compat gives for the library.
"""

from __future__ import annotations

import copy
import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeAlias

from typing_extensions import TypeVar, override

from unienv_interface.errors import BackendError

__all__ = [
    "ArrayAPIArray",
    "ArrayAPIGetIndex",
    "ArrayAPISetIndex",
    "BArrayType",
    "BDeviceType",
    "BDtypeType",
    "BRNGType",
    "BackendMeta",
    "ComputeBackend",
    "IndexedUpdate",
    "Shape",
]

ArrayAPIArray: TypeAlias = Any
"""An array of any backend."""
ArrayAPIGetIndex: TypeAlias = Any
"""What an array can be indexed with to read: ints, slices, arrays, masks, tuples of them."""
ArrayAPISetIndex: TypeAlias = Any
"""What an array can be indexed with to write."""

Shape: TypeAlias = int | tuple[int, ...]

BArrayType = TypeVar("BArrayType", default=Any)
BDeviceType = TypeVar("BDeviceType", default=Any)
BDtypeType = TypeVar("BDtypeType", default=Any)
BRNGType = TypeVar("BRNGType", default=Any)


class BackendMeta(type):
    """Makes a backend class answer for its library's functions."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name != "__array_namespace_info__":
            raise AttributeError(name)
        try:
            return getattr(cls.namespace(), name)
        except AttributeError:
            raise AttributeError(f"backend {cls!r} has no {name!r}") from None

    @override
    def __repr__(cls) -> str:
        return str(getattr(cls, "simplified_name", cls.__name__))


class IndexedUpdate:
    """`at(x)[index].set(value)`: the array with some elements replaced."""

    def __init__(self, array: Any, index: Any = None) -> None:
        self._array = array
        self._index = index

    def __getitem__(self, index: ArrayAPISetIndex) -> IndexedUpdate:
        """Chooses elements."""
        return type(self)(self._array, index)

    def _writable(self) -> Any:
        return self._array

    def set(self, value: Any) -> Any:
        """Replaces the elements; in place where the array can be written to."""
        array = self._writable()
        array[self._index] = value
        return array

    def add(self, value: Any) -> Any:
        """Adds to the elements; repeated indexes count once, as in numpy."""
        array = self._writable()
        array[self._index] = array[self._index] + value
        return array


class ComputeBackend(Generic[BArrayType, BDeviceType, BDtypeType, BRNGType], metaclass=BackendMeta):
    """Base of all backends.

    Besides what is listed here a backend has every function and dtype name of the array API, and
    `random`, a namespace of functions that return ``(rng, array)``.
    """

    simplified_name: ClassVar[str]
    default_integer_dtype: ClassVar[Any]
    default_index_dtype: ClassVar[Any]
    default_floating_dtype: ClassVar[Any]
    default_boolean_dtype: ClassVar[Any]
    inf: ClassVar[float] = float("inf")
    random: ClassVar[Any]
    ARRAY_TYPE: ClassVar[Any]
    DEVICE_TYPE: ClassVar[Any]
    DTYPE_TYPE: ClassVar[Any]
    RNG_TYPE: ClassVar[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refused: a backend is used as a class."""
        raise BackendError(f"backend {cls!r} is a namespace and has no instances")

    @classmethod
    def namespace(cls) -> types.ModuleType:
        """The module with the functions of the array API."""
        raise NotImplementedError

    @staticmethod
    def is_backendarray(data: Any) -> bool:
        """Whether `data` is an array of this backend; scalars are not."""
        raise NotImplementedError

    @staticmethod
    def from_numpy(data: Any, *, dtype: Any = None, device: Any = None) -> Any:
        """An array of this backend with a numpy array's values; shares memory where it can."""
        raise NotImplementedError

    @staticmethod
    def to_numpy(data: Any) -> Any:
        """A numpy array with an array's values; shares memory where it can."""
        raise NotImplementedError

    @classmethod
    def from_other_backend(cls, other: Any, data: Any) -> Any:
        """An array of this backend with the values of another backend's array."""
        return data if other is cls else cls.from_numpy(other.to_numpy(data))

    @staticmethod
    def concrete_dtype(dtype: Any) -> Any:
        """The dtype of arrays that are made with `dtype`, which may be a Python type."""
        raise NotImplementedError

    @staticmethod
    def orders(dtype: Any) -> bool:
        """Whether arrays of a dtype can be compared and reduced to their extremes."""
        return True

    @staticmethod
    def dtype_is_real_integer(dtype: Any) -> bool:
        """Whether a dtype is of integers; bool is not."""
        raise NotImplementedError

    @staticmethod
    def dtype_is_real_floating(dtype: Any) -> bool:
        """Whether a dtype is of real floating-point numbers."""
        raise NotImplementedError

    @staticmethod
    def dtype_is_boolean(dtype: Any) -> bool:
        """Whether a dtype is bool."""
        raise NotImplementedError

    @staticmethod
    def device(data: Any) -> Any:
        """Where an array lies."""
        raise NotImplementedError

    @staticmethod
    def to_device(data: Any, device: Any) -> Any:
        """The array on another device; itself when it is there already."""
        raise NotImplementedError

    @staticmethod
    def serialize_device(device: Any) -> Any:
        """A device as JSON data."""
        raise NotImplementedError

    @staticmethod
    def deserialize_device(data: Any) -> Any:
        """The reverse of `serialize_device`."""
        raise NotImplementedError

    @staticmethod
    def at(data: Any) -> Any:
        """Gives ``at(x)[index].set(value)`` and ``.add``, which return the array."""
        return IndexedUpdate(data)

    @classmethod
    def abbreviate_array(cls, data: Any, try_cast_scalar: bool = True) -> Any:
        """A Python number when all elements are equal, else the array.

        Args:
            data: An array.
            try_cast_scalar: False always gives the array.
        """
        if not try_cast_scalar:
            return data
        values = cls.to_numpy(data)
        if values.size and (values == values.flat[0]).all():
            return values.flat[0].item()
        return data

    @classmethod
    def map_fn_over_arrays(cls, data: Any, fn: Callable[[Any], Any]) -> Any:
        """Applies `fn` to the arrays in nested mappings, sequences and dataclasses.

        Everything else comes back unchanged.
        """
        if cls.is_backendarray(data):
            return fn(data)
        if isinstance(data, Mapping):
            changed = {key: cls.map_fn_over_arrays(value, fn) for key, value in data.items()}
            if type(data) is dict:
                return changed
            if isinstance(data, dict):  # its own kind of dict, such as a defaultdict
                same = copy.copy(data)
                same.update(changed)
                return same
            kind: Any = type(data)
            return kind(changed)
        if isinstance(data, (list, tuple)):
            values = [cls.map_fn_over_arrays(value, fn) for value in data]
            if isinstance(data, tuple) and hasattr(data, "_fields"):
                return type(data)(*values)
            return type(data)(values)
        if dataclasses.is_dataclass(data) and not isinstance(data, type):
            result = copy.copy(data)
            for field in dataclasses.fields(data):
                value = cls.map_fn_over_arrays(getattr(data, field.name), fn)
                object.__setattr__(result, field.name, value)  # it may be frozen
            return result
        return data

    @classmethod
    def pad_dim(cls, data: Any, dim: int, target_size: int, value: Any = 0) -> Any:
        """The array with axis `dim` padded to `target_size` at its end.

        Raises:
            ValueError: The axis is larger already.
        """
        missing = target_size - data.shape[dim]
        if missing < 0:
            raise ValueError(f"pad_dim: axis {dim} has {data.shape[dim]} > {target_size} elements")
        if missing == 0:
            return data
        shape = list(data.shape)
        shape[dim] = missing
        namespace: Any = cls.namespace()
        padding = namespace.full(tuple(shape), value, dtype=data.dtype, device=cls.device(data))
        return namespace.concat([data, padding], axis=dim)
