"""Arrays of numbers between bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from unienv_interface.backends.base import BDeviceType, BDtypeType, BRNGType
from unienv_interface.backends.serialization import (
    deserialize_dtype,
    same_dtype,
    serialize_dtype,
)
from unienv_interface.errors import SpaceDefinitionError
from unienv_interface.space.space import Boundedness, Space, check_manner, check_shape
from unienv_interface.space.spaces._bounds import (
    as_bound,
    bounds_of,
    clipped,
    close,
    is_open,
    placed,
)
from unienv_interface.space.spaces._dtypes import castable
from unienv_interface.space.spaces._sampling import draw

__all__ = ["BoxSpace", "inside"]


class BoxSpace(Space[Any, BDeviceType, BDtypeType, BRNGType]):
    """Arrays of one shape whose elements lie between closed bounds.

    The bounds are stored with ``len(shape)`` axes of length 1 or full; `low` and `high` give
    them broadcast to `shape`.

    Args:
        backend: Array backend.
        low: Lower bound: a number, or an array broadcastable to `shape`; ``-inf`` for none.
        high: Upper bound, likewise.
        dtype: A real integer or floating dtype.
        device: Where samples lie.
        shape: Shape of a sample; by default that of the bounds.
        metadata: JSON data.

    Raises:
        SpaceDefinitionError: Wrong dtype or shape, NaN bounds, or low above high.
    """

    def __init__(
        self,
        backend: Any,
        low: Any,
        high: Any,
        dtype: Any,
        device: Any = None,
        shape: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if not (backend.dtype_is_real_integer(dtype) or backend.dtype_is_real_floating(dtype)):
            raise SpaceDefinitionError(
                f"BoxSpace needs a real integer or floating dtype, got {dtype!r}", found=dtype
            )
        low_values, high_values = as_bound(backend, low), as_bound(backend, high)
        if shape is None:
            try:
                shape = np.broadcast_shapes(low_values.shape, high_values.shape)
            except ValueError as error:
                raise SpaceDefinitionError(
                    f"BoxSpace: the bounds' shapes differ: {error}"
                ) from error
        super().__init__(
            backend, shape=check_shape(shape), dtype=dtype, device=device, metadata=metadata
        )
        self._host_low, self._host_high = bounds_of(
            backend, dtype, low_values, high_values, self.shape, "BoxSpace"
        )
        self._low = placed(backend, self._host_low.copy(), dtype, device)
        self._high = placed(backend, self._host_high.copy(), dtype, device)
        self._open = is_open(self._host_low, True), is_open(self._host_high, False)

    @property
    def low(self) -> Any:
        """Lower bounds, of the space's shape."""
        return self.backend.broadcast_to(self._low, self.shape)

    @property
    def high(self) -> Any:
        """Upper bounds, of the space's shape."""
        return self.backend.broadcast_to(self._high, self.shape)

    @override
    def to(self, backend: Any = None, device: Any = None) -> Any:
        if not self._moves(backend, device):
            return self
        target = self.backend if backend is None else backend
        dtype = self.dtype
        if target is not self.backend:
            dtype = deserialize_dtype(target, serialize_dtype(self.backend, dtype))
        return BoxSpace(
            target, self._host_low, self._host_high, dtype, device, self.shape, self._metadata
        )

    @override
    def sample(self, rng: Any) -> tuple[Any, Any]:
        rng, values = draw(self.backend, self.shape, self._host_low, self._host_high, rng)
        return rng, placed(self.backend, values, self.dtype, self.device)

    @override
    def create_empty(self) -> Any:
        return self.backend.zeros(self.shape, dtype=self.dtype, device=self.device)

    @override
    def is_bounded(self, manner: Boundedness = "both") -> bool:
        check_manner(manner)
        below = bool(np.isfinite(self._host_low).all())
        above = bool(np.isfinite(self._host_high).all())
        return {"both": below and above, "below": below, "above": above}[manner]

    @override
    def contains(self, x: Any) -> bool:
        backend = self.backend
        if not backend.is_backendarray(x) or tuple(x.shape) != self.shape:
            return False
        if not castable(backend, x.dtype, self.dtype):
            return False
        return inside(backend, x, self)

    @override
    def clip(self, x: Any) -> Any:
        return clipped(self.backend, x, self._low, self._high, self.dtype)

    @override
    def is_subspaceeq(self, other: Space[Any, Any, Any, Any]) -> bool:
        if (
            not isinstance(other, BoxSpace)
            or self.backend is not other.backend
            or self.shape != other.shape
            or not castable(self.backend, self.dtype, other.dtype)
        ):
            return False
        below = bool((self._host_low >= other._host_low).all())
        return below and bool((self._host_high <= other._host_high).all())

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
        low = self.backend.abbreviate_array(self._low)
        high = self.backend.abbreviate_array(self._high)
        if abbreviate:
            return f"Box({low}, {high}, {self.shape})"
        parts = [f"{low}, {high}, {self.shape}"]
        if include_device:
            parts.append(f"device={self.device}")
        if include_dtype:
            parts.append(f"dtype={self.dtype}")
        if include_backend:
            parts.append(f"backend={self.backend!r}")
        return f"BoxSpace({', '.join(parts)})"

    @override
    def __eq__(self, other: object) -> bool:
        if (
            not isinstance(other, BoxSpace)
            or self.backend is not other.backend
            or self.shape != other.shape
            or not same_dtype(self.backend, self.dtype, other.dtype)
        ):
            return False
        return close(self._host_low, other._host_low) and close(self._host_high, other._host_high)

    __hash__ = Space.__hash__


def inside(backend: Any, x: Any, bounds: Any) -> bool:
    """Whether an array, whose shape and dtype are right, lies between the bounds of a space."""
    floating = backend.dtype_is_real_floating(x.dtype)
    if math.prod(x.shape) == 0 or (all(bounds._open) and not floating):
        return True
    low, high = bounds._low, bounds._high
    if not backend.orders(x.dtype) or not backend.orders(low.dtype):
        x, low, high = backend.to_numpy(x), bounds._host_low, bounds._host_high
    if bounds._host_low.size == bounds._host_high.size == 1:
        # The extremes are enough, and are NaN when any element is.
        return bool(x.min() >= low) and bool(x.max() <= high)
    return bool(((x >= low) & (x <= high)).all())
