"""Batches of samples that are no arrays: object arrays of texts or unions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from unienv_interface.backends.base import BDeviceType, BDtypeType, BRNGType
from unienv_interface.space.space import Boundedness, Space, check_shape

__all__ = ["BatchedSpace"]


class BatchedSpace(Space[Any, BDeviceType, BDtypeType, BRNGType]):
    """numpy object arrays of `batch_shape` whose elements are members of `single_space`.

    Args:
        single_space: Space of one element.
        batch_shape: Shape of the array.
        metadata: JSON data.
    """

    def __init__(
        self,
        single_space: Space[Any, BDeviceType, BDtypeType, BRNGType],
        batch_shape: Any,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(single_space.backend, device=single_space.device, metadata=metadata)
        self.single_space = single_space
        self.batch_shape = check_shape(batch_shape)

    def _filled(self, make: Any) -> Any:
        array = np.empty(self.batch_shape, dtype=object)
        for position in np.ndindex(*self.batch_shape):
            array[position] = make(position)
        return array

    @override
    def to(self, backend: Any = None, device: Any = None) -> Any:
        if not self._moves(backend, device):
            return self
        return BatchedSpace(self.single_space.to(backend, device), self.batch_shape, self._metadata)

    @override
    def sample(self, rng: Any) -> tuple[Any, Any]:
        def draw(_: Any) -> Any:
            nonlocal rng
            rng, value = self.single_space.sample(rng)
            return value

        array = self._filled(draw)
        return rng, array

    @override
    def create_empty(self) -> Any:
        return self._filled(lambda _: self.single_space.create_empty())

    @override
    def is_bounded(self, manner: Boundedness = "both") -> bool:
        return self.single_space.is_bounded(manner)

    @override
    def contains(self, x: Any) -> bool:
        return (
            isinstance(x, np.ndarray)
            and x.dtype == object
            and x.shape == self.batch_shape
            and all(map(self.single_space.contains, x.flat))
        )

    @override
    def clip(self, x: Any) -> Any:
        return self._filled(lambda position: self.single_space.clip(x[position]))

    @override
    def is_subspaceeq(self, other: Space[Any, Any, Any, Any]) -> bool:
        return (
            isinstance(other, BatchedSpace)
            and self.batch_shape == other.batch_shape
            and self.single_space.is_subspaceeq(other.single_space)
        )

    @override
    def data_to(self, data: Any, backend: Any = None, device: Any = None) -> Any:
        return self._filled(lambda p: self.single_space.data_to(data[p], backend, device))

    @override
    def get_repr(
        self,
        abbreviate: bool = False,
        include_backend: bool = True,
        include_device: bool = True,
        include_dtype: bool = True,
    ) -> str:
        single = self.single_space.get_repr(
            abbreviate, include_backend, include_device, include_dtype
        )
        return f"BatchedSpace({single}, batch_shape={self.batch_shape})"

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BatchedSpace)
            and self.batch_shape == other.batch_shape
            and self.single_space == other.single_space
        )

    __hash__ = Space.__hash__
