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

__all__ = ["BoxSpace"]


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
        low_values, high_values = _as_numpy(backend, low), _as_numpy(backend, high)
        if shape is None:
            try:
                shape = np.broadcast_shapes(low_values.shape, high_values.shape)
            except ValueError as error:
                raise SpaceDefinitionError(
                    f"BoxSpace: the bounds' shapes differ: {error}"
                ) from error
        super().__init__(backend, check_shape(shape), dtype, device, metadata)
        if np.isnan(low_values).any() or np.isnan(high_values).any():
            raise SpaceDefinitionError("BoxSpace: a bound is NaN")
        self._low = self._bound(low_values, "low")
        self._high = self._bound(high_values, "high")
        if bool((backend.to_numpy(self._low) > backend.to_numpy(self._high)).any()):
            raise SpaceDefinitionError(f"BoxSpace: low {low!r} lies above high {high!r}")

    def _bound(self, values: Any, name: str) -> Any:
        """A bound in this dtype, with one axis for each of the shape."""
        backend, dtype = self.backend, self.dtype
        axes = len(self.shape)
        values = values.reshape((1,) * (axes - values.ndim) + values.shape)
        fits = values.ndim == axes and all(
            have in (1, want) for have, want in zip(values.shape, self.shape, strict=True)
        )
        if not fits:
            raise SpaceDefinitionError(
                f"BoxSpace: {name} of shape {values.shape} does not broadcast to {self.shape}",
                expected=self.shape,
                found=values.shape,
            )
        if backend.dtype_is_real_integer(dtype):
            limits = backend.iinfo(dtype if not isinstance(dtype, type) or dtype is not int else
                                   backend.asarray(0, dtype=dtype).dtype)  # fmt: skip
            lowest, highest = int(limits.min), int(limits.max)
            flat = [
                lowest if v == -math.inf else highest if v == math.inf else int(v)
                for v in values.reshape(-1).tolist()
            ]
            flat = [min(max(v, lowest), highest) for v in flat]
            array = backend.asarray(flat, dtype=dtype)
            if self.device is not None:
                array = backend.to_device(array, self.device)
            return backend.reshape(array, values.shape)
        array = backend.asarray(values.tolist(), dtype=dtype)
        if self.device is not None:
            array = backend.to_device(array, self.device)
        return backend.reshape(array, values.shape)

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
            target,
            self.backend.to_numpy(self._low),
            self.backend.to_numpy(self._high),
            dtype,
            device=device if device is not None or backend is not None else self.device,
            shape=self.shape,
            metadata=self._metadata,
        )

    @override
    def sample(self, rng: Any) -> tuple[Any, Any]:
        backend, shape = self.backend, self.shape
        low = backend.to_numpy(self.low)
        high = backend.to_numpy(self.high)
        integers = backend.dtype_is_real_integer(self.dtype)
        if integers:
            rng, unit = backend.random.random_uniform(shape, rng=rng)
            return rng, self._placed(_integers(np.asarray(backend.to_numpy(unit)), low, high))
        bounded_below, bounded_above = np.isfinite(low), np.isfinite(high)
        rng, normal = backend.random.random_normal(shape, rng=rng)
        rng, exponential = backend.random.random_exponential(shape, rng=rng)
        rng, unit = backend.random.random_uniform(shape, rng=rng)
        parts = [np.asarray(backend.to_numpy(p), np.float64) for p in (normal, exponential, unit)]
        wide_low, wide_high = low.astype(np.float64), high.astype(np.float64)
        with np.errstate(all="ignore"):
            both = wide_low + parts[2] * (wide_high - wide_low)
            # The range of two extreme floats may itself overflow.
            both = np.where(
                np.isfinite(both), both, wide_low * (1 - parts[2]) + wide_high * parts[2]
            )
            values = np.select(
                [bounded_below & bounded_above, bounded_below, bounded_above],
                [both, wide_low + parts[1], wide_high - parts[1]],
                parts[0],
            )
            values = np.clip(values.astype(low.dtype), low, high)
        return rng, self._placed(values)

    def _placed(self, values: Any) -> Any:
        return self.backend.from_numpy(np.asarray(values), device=self.device)

    @override
    def create_empty(self) -> Any:
        return self.backend.empty(self.shape, dtype=self.dtype, device=self.device)

    @override
    def is_bounded(self, manner: Boundedness = "both") -> bool:
        check_manner(manner)
        below = bool(np.isfinite(self.backend.to_numpy(self._low)).all())
        above = bool(np.isfinite(self.backend.to_numpy(self._high)).all())
        return {"both": below and above, "below": below, "above": above}[manner]

    @override
    def contains(self, x: Any) -> bool:
        backend = self.backend
        if not backend.is_backendarray(x) or tuple(x.shape) != self.shape:
            return False
        if not _castable(backend, x.dtype, self.dtype):
            return False
        return bool(backend.all(x >= self._low)) and bool(backend.all(x <= self._high))

    @override
    def clip(self, x: Any) -> Any:
        return self.backend.clip(x, self.low, self.high)

    @override
    def is_subspaceeq(self, other: Space[Any, Any, Any, Any]) -> bool:
        if (
            not isinstance(other, BoxSpace)
            or self.backend is not other.backend
            or self.shape != other.shape
            or not _castable(self.backend, self.dtype, other.dtype)
        ):
            return False
        backend = self.backend
        low, other_low = backend.to_numpy(self._low), backend.to_numpy(other._low)
        high, other_high = backend.to_numpy(self._high), backend.to_numpy(other._high)
        return bool((low >= other_low).all() and (high <= other_high).all())

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
        backend = self.backend
        pairs = ((self._low, other._low), (self._high, other._high))
        return all(
            bool(np.isclose(backend.to_numpy(a), backend.to_numpy(b)).all()) for a, b in pairs
        )

    __hash__ = Space.__hash__


def _as_numpy(backend: Any, bound: Any) -> Any:
    if backend.is_backendarray(bound):
        return np.asarray(backend.to_numpy(bound))
    try:
        values = np.asarray(bound)
    except ValueError as error:
        raise SpaceDefinitionError(f"BoxSpace: {bound!r} is no bound") from error
    if values.dtype == object and all(isinstance(v, int) for v in values.reshape(-1).tolist()):
        return values.astype(float) if values.size == 0 else _exact_integers(values)
    if values.dtype.kind not in "biuf":
        # "Infinity" and "-Infinity", as valid JSON spells infinite bounds.
        try:
            return values.astype(np.float64)
        except (ValueError, TypeError) as error:
            raise SpaceDefinitionError(f"BoxSpace: {bound!r} is no bound") from error
    return values


def _exact_integers(values: Any) -> Any:
    """Integers beyond int64: kept exact where uint64 holds them, infinite otherwise."""
    flat = values.reshape(-1).tolist()
    if all(0 <= v < 2**64 for v in flat):
        return values.astype(np.uint64)
    return np.array([float(v) for v in flat]).reshape(values.shape)


def _castable(backend: Any, source: Any, target: Any) -> bool:
    """Whether numpy's safe rule lets `source` be `target`."""
    try:
        names = serialize_dtype(backend, source), serialize_dtype(backend, target)
    except ValueError:
        return bool(source == target)
    if "bool" in names:
        return names[0] == names[1]
    return bool(np.can_cast(np.dtype(str(names[0])), np.dtype(str(names[1])), "safe"))


def _integers(unit: Any, low: Any, high: Any) -> Any:
    """Uniform integers of the closed range, from floats of ``[0, 1)``, exact at the ends."""
    result = np.empty(low.shape, dtype=low.dtype)
    flat = result.reshape(-1)
    for position, (u, lowest, highest) in enumerate(
        zip(
            unit.reshape(-1).tolist(),
            low.reshape(-1).tolist(),
            high.reshape(-1).tolist(),
            strict=True,
        )
    ):
        width = highest - lowest + 1
        flat[position] = min(lowest + int(u * width), highest)
    return result
