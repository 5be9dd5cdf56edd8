"""The space of given data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unienv_interface.errors import SpaceMismatchError, UnsupportedSpaceError
from unienv_interface.space.spaces import BinarySpace, BoxSpace, DictSpace, TextSpace

__all__ = ["construct_space_from_data"]


def construct_space_from_data(
    data: Any, backend: Any, candidate_space: Any = None, add_bounds: bool = False
) -> Any:
    """A space that contains the data.

    Args:
        data: One sample: arrays, texts, mappings of them.
        backend: Array backend.
        candidate_space: A space of earlier samples, widened where the data needs it.
        add_bounds: Bound numbers by those seen; otherwise Boxes are unbounded.

    Raises:
        UnsupportedSpaceError: No space holds such data.
        SpaceMismatchError: The data cannot be in one space with the earlier samples.
    """
    space = _construct(data, backend, add_bounds)
    return space if candidate_space is None else _widened(candidate_space, space)


def _construct(data: Any, backend: Any, add_bounds: bool) -> Any:
    if isinstance(data, Mapping):
        pairs = [(key, _construct(value, backend, add_bounds)) for key, value in data.items()]
        return DictSpace(backend, pairs)
    if isinstance(data, str):
        return TextSpace(backend, len(data))
    array = data if backend.is_backendarray(data) else backend.asarray(data)
    if backend.dtype_is_boolean(array.dtype):
        return BinarySpace(backend, tuple(array.shape), array.dtype)
    if not (
        backend.dtype_is_real_integer(array.dtype) or backend.dtype_is_real_floating(array.dtype)
    ):
        raise UnsupportedSpaceError(f"no space holds values of dtype {array.dtype}")
    inf = float("inf")
    low, high = (array, array) if add_bounds else (-inf, inf)
    return BoxSpace(backend, low, high, array.dtype, shape=tuple(array.shape))


def _widened(before: Any, space: Any) -> Any:
    if isinstance(before, DictSpace) and isinstance(space, DictSpace):
        if before.spaces.keys() != space.spaces.keys():
            raise SpaceMismatchError(
                f"the samples have different keys: {sorted(before.spaces)}, {sorted(space.spaces)}"
            )
        pairs = [(key, _widened(child, space[key])) for key, child in before.spaces.items()]
        return DictSpace(before.backend, pairs)
    if isinstance(before, TextSpace) and isinstance(space, TextSpace):
        return TextSpace(before.backend, max(before.max_length, space.max_length))
    if type(before) is not type(space) or before.shape != space.shape:
        raise SpaceMismatchError(
            f"the samples are in no common space: {before} and {space}",
            expected=str(before),
            found=str(space),
        )
    if isinstance(before, BoxSpace):
        backend = before.backend
        return BoxSpace(
            backend,
            backend.minimum(before.low, space.low),
            backend.maximum(before.high, space.high),
            backend.result_type(
                backend.zeros((), dtype=before.dtype).dtype,
                backend.zeros((), dtype=space.dtype).dtype,
            ),
            shape=before.shape,
        )
    return before
