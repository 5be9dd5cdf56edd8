"""Arrays of numbers between bounds whose shape varies within limits."""

from __future__ import annotations

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
from unienv_interface.errors import SpaceDefinitionError, SpaceMismatchError
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
from unienv_interface.space.spaces.box import inside

__all__ = ["DynamicBoxSpace"]


class DynamicBoxSpace(Space[Any, BDeviceType, BDtypeType, BRNGType]):
    """Arrays with as many axes as `shape_low` has, each of a length within limits.

    Arrays of different shapes meet in a batch by padding with `fill_value` at the end of each
    axis; `unpad_data` drops what is entirely fill value, down to `shape_low`. A sample that ends
    in fill values itself comes back shorter.

    Args:
        backend: Array backend.
        low: Lower bound: a number, or an array broadcastable to every allowed shape.
        high: Upper bound, likewise.
        shape_low: Least length of each axis.
        shape_high: Greatest length of each axis; at least one differs from the least.
        dtype: A real integer or floating dtype.
        device: Where samples lie.
        fill_value: Padding; equality ignores it.
        metadata: JSON data.

    Raises:
        SpaceDefinitionError: Wrong dtype or shapes, NaN bounds, or low above high.
    """

    def __init__(
        self,
        backend: Any,
        low: Any,
        high: Any,
        shape_low: Any,
        shape_high: Any,
        dtype: Any,
        device: Any = None,
        fill_value: int | float = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(backend, dtype=dtype, device=device, metadata=metadata)
        if not (backend.dtype_is_real_integer(dtype) or backend.dtype_is_real_floating(dtype)):
            raise SpaceDefinitionError(
                f"DynamicBoxSpace needs a real integer or floating dtype, got {dtype!r}",
                found=dtype,
            )
        self.shape_low, self.shape_high = check_shape(shape_low), check_shape(shape_high)
        if len(self.shape_low) != len(self.shape_high) or any(
            least > most for least, most in zip(self.shape_low, self.shape_high, strict=True)
        ):
            raise SpaceDefinitionError(
                f"DynamicBoxSpace: shapes {self.shape_low} to {self.shape_high} are no range"
            )
        if self.shape_low == self.shape_high:
            raise SpaceDefinitionError("DynamicBoxSpace: no axis varies; use BoxSpace")
        # A plain number, as JSON wants it.
        self.fill_value = fill_value.item() if isinstance(fill_value, np.generic) else fill_value
        self._host_low, self._host_high = bounds_of(
            backend,
            dtype,
            as_bound(backend, low),
            as_bound(backend, high),
            self._common_axes,
            "DynamicBoxSpace",
        )
        self._low = placed(backend, self._host_low.copy(), dtype, device)
        self._high = placed(backend, self._host_high.copy(), dtype, device)
        self._open = is_open(self._host_low, True), is_open(self._host_high, False)

    @property
    def _common_axes(self) -> tuple[int, ...]:
        """Axes of bounds: 1 where the length varies."""
        both = zip(self.shape_low, self.shape_high, strict=True)
        return tuple(least if least == most else 1 for least, most in both)

    @property
    def low(self) -> Any:
        """Lower bounds; axes of varying length have length 1."""
        return self.backend.broadcast_to(self._low, self._common_axes)

    @property
    def high(self) -> Any:
        """Upper bounds; axes of varying length have length 1."""
        return self.backend.broadcast_to(self._high, self._common_axes)

    def get_low(self, shape: Any) -> Any:
        """Lower bounds of samples of one shape."""
        return self.backend.broadcast_to(self._low, tuple(shape))

    def get_high(self, shape: Any) -> Any:
        """Upper bounds of samples of one shape."""
        return self.backend.broadcast_to(self._high, tuple(shape))

    def shape_contains(self, shape: Any) -> bool:
        """Whether a shape is allowed."""
        return len(shape) == len(self.shape_low) and all(
            least <= have <= most
            for least, have, most in zip(self.shape_low, shape, self.shape_high, strict=True)
        )

    def pad_data(
        self, data: Any, start_axis: int | None = None, end_axis: int | None = None
    ) -> Any:
        """An array padded to the greatest lengths.

        Args:
            data: The array.
            start_axis: First axis to pad; by default the first of all.
            end_axis: Axis to stop before; by default none.

        Raises:
            SpaceMismatchError: It has other axes, or an axis is too long.
        """
        if len(data.shape) != len(self.shape_high):
            raise SpaceMismatchError(
                f"pad_data: an array of shape {tuple(data.shape)} has not the axes of "
                f"{self.shape_high}"
            )
        for axis in range(len(self.shape_high))[start_axis:end_axis]:
            if data.shape[axis] > self.shape_high[axis]:
                raise SpaceMismatchError(
                    f"pad_data: axis {axis} is longer than {self.shape_high[axis]}",
                    found=tuple(data.shape),
                )
            data = self.backend.pad_dim(data, axis, self.shape_high[axis], self.fill_value)
        return data

    def unpad_data(
        self, data: Any, start_axis: int | None = None, end_axis: int | None = None
    ) -> Any:
        """An array without the padding at its end, but never shorter than `shape_low`.

        Args:
            data: The array.
            start_axis: First axis to shorten; by default the first of all.
            end_axis: Axis to stop before; by default none.
        """
        filled = np.asarray(self.backend.to_numpy(data)) == self.fill_value
        index = [slice(None)] * len(self.shape_low)
        for axis in range(len(self.shape_low))[start_axis:end_axis]:
            others = tuple(other for other in range(filled.ndim) if other != axis)
            kept = np.flatnonzero(~filled.all(axis=others))
            length = max(self.shape_low[axis], int(kept[-1]) + 1 if kept.size else 0)
            index[axis] = slice(0, length)
        return data[tuple(index)]

    @override
    def to(self, backend: Any = None, device: Any = None) -> Any:
        if not self._moves(backend, device):
            return self
        target = self.backend if backend is None else backend
        dtype = self.dtype
        if target is not self.backend:
            dtype = deserialize_dtype(target, serialize_dtype(self.backend, dtype))
        return DynamicBoxSpace(
            target,
            self._host_low,
            self._host_high,
            self.shape_low,
            self.shape_high,
            dtype,
            device,
            self.fill_value,
            self._metadata,
        )

    @override
    def sample(self, rng: Any) -> tuple[Any, Any]:
        shape = []
        for least, most in zip(self.shape_low, self.shape_high, strict=True):
            rng, length = self.backend.random.random_discrete_uniform((), least, most + 1, rng=rng)
            shape.append(int(length))
        rng, values = draw(self.backend, tuple(shape), self._host_low, self._host_high, rng)
        return rng, placed(self.backend, values, self.dtype, self.device)

    @override
    def create_empty(self) -> Any:
        return self.backend.zeros(self.shape_high, dtype=self.dtype, device=self.device)

    @override
    def is_bounded(self, manner: Boundedness = "both") -> bool:
        check_manner(manner)
        below = bool(np.isfinite(self._host_low).all())
        above = bool(np.isfinite(self._host_high).all())
        return {"both": below and above, "below": below, "above": above}[manner]

    @override
    def contains(self, x: Any) -> bool:
        return (
            self.backend.is_backendarray(x)
            and self.shape_contains(tuple(x.shape))
            and castable(self.backend, x.dtype, self.dtype)
            and inside(self.backend, x, self)
        )

    @override
    def clip(self, x: Any) -> Any:
        return clipped(self.backend, x, self._low, self._high, self.dtype)

    @override
    def is_subspaceeq(self, other: Space[Any, Any, Any, Any]) -> bool:
        return (
            isinstance(other, DynamicBoxSpace)
            and self.backend is other.backend
            and other.shape_contains(self.shape_low)
            and other.shape_contains(self.shape_high)
            and castable(self.backend, self.dtype, other.dtype)
            and bool((self._host_low >= other._host_low).all())
            and bool((self._host_high <= other._host_high).all())
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
        low = self.backend.abbreviate_array(self._low)
        high = self.backend.abbreviate_array(self._high)
        parts = [f"{low}, {high}, {self.shape_low}, {self.shape_high}"]
        if abbreviate:
            return f"DynamicBox({parts[0]})"
        parts.append(f"fill_value={self.fill_value}")
        if include_device:
            parts.append(f"device={self.device}")
        if include_dtype:
            parts.append(f"dtype={self.dtype}")
        if include_backend:
            parts.append(f"backend={self.backend!r}")
        return f"DynamicBoxSpace({', '.join(parts)})"

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DynamicBoxSpace)
            and self.backend is other.backend
            and self.shape_low == other.shape_low
            and self.shape_high == other.shape_high
            and same_dtype(self.backend, self.dtype, other.dtype)
            and close(self._host_low, other._host_low)
            and close(self._host_high, other._host_high)
        )

    __hash__ = Space.__hash__
