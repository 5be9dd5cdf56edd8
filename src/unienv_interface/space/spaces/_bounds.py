"""Bounds of number arrays: from what the caller gives to compact arrays of the dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from unienv_interface.errors import SpaceDefinitionError
from unienv_interface.space.spaces._dtypes import host_dtype

__all__ = ["as_bound", "bounds_of", "clipped", "close", "is_open", "placed", "saturated"]


def as_bound(backend: Any, bound: Any) -> Any:
    """A bound as a numpy array of numbers; nested lists may hold "Infinity".

    Raises:
        SpaceDefinitionError: It is no number, or NaN.
    """
    if backend.is_backendarray(bound):
        values = np.asarray(backend.to_numpy(bound))
    else:
        try:
            values = np.asarray(bound)
        except ValueError as error:
            raise SpaceDefinitionError(f"{bound!r} is no bound") from error
    if values.dtype.kind == "f" and isinstance(bound, (list, tuple)):
        exact = np.asarray(bound, dtype=object)  # numpy makes floats of [0, 2**63]
        values = exact if _whole(exact) else values
    if values.dtype == object and _whole(values):
        return values  # integers too large for 64 bits, or of both halves
    if values.dtype.kind not in "biuf":
        # "Infinity" and "-Infinity", as valid JSON spells infinite bounds.
        try:
            values = values.astype(np.float64)
        except (ValueError, TypeError) as error:
            raise SpaceDefinitionError(f"{bound!r} is no bound") from error
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise SpaceDefinitionError("a bound is NaN")
    return values


def _whole(values: Any) -> bool:
    """Whether the elements of an object array, of which there are some, are all int."""
    return values.size > 0 and all(isinstance(v, int) for v in values.reshape(-1).tolist())


def bounds_of(
    backend: Any, dtype: Any, low: Any, high: Any, axes: tuple[int, ...], owner: str
) -> tuple[Any, Any]:
    """Both bounds as numpy arrays of the dtype, with one axis for each of `axes`.

    Args:
        backend: Array backend of the space.
        dtype: A real integer or floating dtype of it.
        low: What `as_bound` gave.
        high: Likewise.
        axes: The length each axis may have, besides 1.
        owner: Name of the space, for messages.

    Raises:
        SpaceDefinitionError: They do not broadcast, do not fit the dtype, or cross.
    """
    host = host_dtype(backend, dtype)
    result = []
    for name, values in (("low", low), ("high", high)):
        compact = values.reshape((1,) * (len(axes) - values.ndim) + values.shape)
        if compact.ndim != len(axes) or any(
            have not in (1, want) for have, want in zip(compact.shape, axes, strict=True)
        ):
            raise SpaceDefinitionError(
                f"{owner}: {name} of shape {values.shape} does not broadcast to {axes}",
                expected=axes,
                found=values.shape,
            )
        if host.kind in "iu":
            result.append(_integers(compact, host, name, owner))
        else:
            try:
                with np.errstate(over="ignore"):  # beyond the dtype is infinite
                    result.append(np.array(compact, dtype=host))
            except OverflowError as error:  # a Python int that no float holds
                raise SpaceDefinitionError(f"{owner}: {name} does not fit {host}") from error
    if bool((result[0] > result[1]).any()):
        raise SpaceDefinitionError(f"{owner}: low {low} lies above high {high}")
    return result[0], result[1]


def _integers(values: Any, dtype: np.dtype[Any], name: str, owner: str) -> Any:
    """Whole bounds: infinity is the dtype's limit, fractions are rounded inwards."""
    lowest, highest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if values.dtype.kind != "f":
        if values.size and (values.min() < lowest or values.max() > highest):
            raise SpaceDefinitionError(f"{owner}: {name} {values} does not fit {dtype}")
        return np.array(values, dtype=dtype)
    with np.errstate(over="ignore"):
        # Limits may round up as floats; whoever passes those means the limits.
        bottom, top = np.array([lowest, highest], np.float64).astype(values.dtype)
    rounded = np.ceil(values) if name == "low" else np.floor(values)
    at_bottom = (rounded == -np.inf) | (rounded == bottom)
    at_top = (rounded == np.inf) | (rounded == top)
    inside = ~(at_bottom | at_top)
    rounded = rounded.astype(np.float64)
    if bool((inside & ((rounded < lowest) | (rounded > highest))).any()):
        raise SpaceDefinitionError(f"{owner}: {name} {values} does not fit {dtype}")
    result = np.where(inside, rounded, 0).astype(dtype)
    result[at_bottom] = lowest
    result[at_top] = highest
    return result


def is_open(host: Any, below: bool) -> bool:
    """Whether a bound excludes no value of its dtype, infinities included."""
    if host.dtype.kind in "iu":
        limits = np.iinfo(host.dtype)
        return bool((host == (limits.min if below else limits.max)).all())
    return bool((host == (-np.inf if below else np.inf)).all())


def close(one: Any, other: Any) -> bool:
    """Whether two bounds are equal up to rounding."""
    with np.errstate(over="ignore"):  # the difference of extremes is infinite
        return bool(np.isclose(one, other).all())


def clipped(backend: Any, x: Any, low: Any, high: Any, dtype: Any) -> Any:
    """The nearest array between two bounds, of a dtype; NaN stays."""
    # Not `clip`: that of array-api-compat 1.16 writes into its bounds.
    limited = backend.asarray(backend.maximum(backend.minimum(x, high), low))  # no numpy scalar
    return saturated(backend, limited, dtype, copy=False)


def saturated(backend: Any, x: Any, dtype: Any, *, copy: bool) -> Any:
    """An array in another dtype, where floats beyond an integer dtype become its limits.

    That happens to the limits themselves, when they had to be rounded up to a float.
    """
    concrete = backend.concrete_dtype(dtype)
    if not (backend.dtype_is_real_floating(x.dtype) and backend.dtype_is_real_integer(concrete)):
        return backend.astype(x, concrete, copy=copy)
    limits = np.iinfo(host_dtype(backend, concrete))
    if limits.bits <= np.finfo(host_dtype(backend, x.dtype)).nmant:
        return backend.astype(x, concrete, copy=copy)
    with np.errstate(over="ignore"):  # a limit may be infinite in a small float dtype
        below, above = x <= float(limits.min), x >= float(limits.max)
    inner = backend.astype(backend.where(below | above, backend.zeros_like(x), x), concrete)
    ends = [backend.full_like(inner, end) for end in (int(limits.min), int(limits.max))]
    return backend.where(below, ends[0], backend.where(above, ends[1], inner))


def placed(backend: Any, values: Any, dtype: Any, device: Any) -> Any:
    """A numpy array as one of the backend, of a dtype that numpy may not have."""
    array = backend.from_numpy(values, device=device)
    if array.dtype == dtype:
        return array
    return backend.astype(array, backend.concrete_dtype(dtype), copy=False)
