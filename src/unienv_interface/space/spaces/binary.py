"""Arrays of bools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from unienv_interface.backends.base import BDeviceType, BDtypeType, BRNGType
from unienv_interface.backends.serialization import same_dtype
from unienv_interface.errors import SpaceDefinitionError
from unienv_interface.space.space import Boundedness, Space, check_manner, check_shape

__all__ = ["BinarySpace"]


class BinarySpace(Space[Any, BDeviceType, BDtypeType, BRNGType]):
    """Boolean arrays of one shape.

    Args:
        backend: Array backend.
        shape: Shape of a sample.
        dtype: A boolean dtype; None for the backend's default.
        device: Where samples lie.
        metadata: JSON data.

    Raises:
        SpaceDefinitionError: Another dtype, or no shape.
    """

    def __init__(
        self,
        backend: Any,
        shape: Any,
        dtype: Any = None,
        device: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if dtype is None:
            dtype = backend.default_boolean_dtype
        if not backend.dtype_is_boolean(dtype):
            raise SpaceDefinitionError(f"BinarySpace needs a boolean dtype, got {dtype!r}")
        super().__init__(
            backend, shape=check_shape(shape), dtype=dtype, device=device, metadata=metadata
        )

    @override
    def to(self, backend: Any = None, device: Any = None) -> Any:
        if not self._moves(backend, device):
            return self
        target = self.backend if backend is None else backend
        dtype = self.dtype if target is self.backend else None
        return BinarySpace(target, self.shape, dtype, device, self._metadata)

    @override
    def sample(self, rng: Any) -> tuple[Any, Any]:
        rng, values = self.backend.random.random_discrete_uniform(
            self.shape, 0, 2, rng=rng, device=self.device
        )
        return rng, self.backend.asarray(values != 0)

    @override
    def create_empty(self) -> Any:
        return self.backend.zeros(self.shape, dtype=self.dtype, device=self.device)

    @override
    def is_bounded(self, manner: Boundedness = "both") -> bool:
        check_manner(manner)
        return True

    @override
    def contains(self, x: Any) -> bool:
        return (
            self.backend.is_backendarray(x)
            and tuple(x.shape) == self.shape
            and bool(self.backend.dtype_is_boolean(x.dtype))
        )

    @override
    def clip(self, x: Any) -> Any:
        return self.backend.astype(x, self.backend.concrete_dtype(self.dtype), copy=False)

    @override
    def is_subspaceeq(self, other: Space[Any, Any, Any, Any]) -> bool:
        return (
            isinstance(other, BinarySpace)
            and self.backend is other.backend
            and self.shape == other.shape
        )

    @override
    def data_to(self, data: Any, backend: Any = None, device: Any = None) -> Any:
        return self._move_array(data, backend, device)

    @override
    def get_repr(
        self,
        abbreviate: bool = False,
        include_backend: bool = True,
        include_device: bool = True,
        include_dtype: bool = True,
    ) -> str:
        if abbreviate:
            return f"Binary({self.shape})"
        parts = [str(self.shape)]
        if include_device:
            parts.append(f"device={self.device}")
        if include_dtype:
            parts.append(f"dtype={self.dtype}")
        if include_backend:
            parts.append(f"backend={self.backend!r}")
        return f"BinarySpace({', '.join(parts)})"

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BinarySpace)
            and self.backend is other.backend
            and self.shape == other.shape
            and same_dtype(self.backend, self.dtype, other.dtype)
            and self.device == other.device
        )

    __hash__ = Space.__hash__
