"""Tuples of samples of other spaces."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from unienv_interface.backends.base import BDeviceType, BDtypeType, BRNGType
from unienv_interface.space.spaces._children import SequenceSpace

__all__ = ["TupleSpace"]


class TupleSpace(SequenceSpace[tuple[Any, ...], BDeviceType, BDtypeType, BRNGType]):
    """Tuples with one entry of each child space."""

    @override
    def sample(self, rng: Any) -> tuple[Any, tuple[Any, ...]]:
        result = []
        for child in self.spaces:
            rng, value = child.sample(rng)
            result.append(value)
        return rng, tuple(result)

    @override
    def create_empty(self) -> tuple[Any, ...]:
        return tuple(child.create_empty() for child in self.spaces)

    @override
    def contains(self, x: Any) -> bool:
        return (
            isinstance(x, tuple)
            and len(x) == len(self.spaces)
            and all(child.contains(value) for child, value in zip(self.spaces, x, strict=True))
        )

    @override
    def clip(self, x: Any) -> tuple[Any, ...]:
        return tuple(child.clip(value) for child, value in zip(self.spaces, x, strict=True))

    @override
    def data_to(self, data: Any, backend: Any = None, device: Any = None) -> tuple[Any, ...]:
        return tuple(
            child.data_to(value, backend, device)
            for child, value in zip(self.spaces, data, strict=True)
        )
