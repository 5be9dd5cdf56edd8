"""Tuples of samples of other spaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from unienv_interface.backends.base import BDeviceType, BDtypeType, BRNGType
from unienv_interface.space.space import Boundedness, Space
from unienv_interface.space.spaces.dict import _as_space, common_device

__all__ = ["TupleSpace"]


class TupleSpace(Space[tuple[Any, ...], BDeviceType, BDtypeType, BRNGType]):
    """Tuples with one entry of each child space.

    Args:
        backend: Array backend of all children.
        spaces: The children.
        device: By default the children's common device.
        metadata: JSON data.
    """

    is_union: ClassVar[bool] = False
    """Whether samples are of one child, not of all."""

    def __init__(
        self,
        backend: Any,
        spaces: Iterable[Any],
        device: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.spaces = tuple(
            _as_space(backend, number, child) for number, child in enumerate(spaces)
        )
        if device is None:
            device = common_device(self.spaces)
        super().__init__(backend, None, None, device, metadata)

    def __getitem__(self, index: int) -> Space[Any, Any, Any, Any]:
        return self.spaces[index]

    def __iter__(self) -> Iterator[Space[Any, Any, Any, Any]]:
        return iter(self.spaces)

    def __len__(self) -> int:
        return len(self.spaces)

    @override
    def to(self, backend: Any = None, device: Any = None) -> Any:
        if not self._moves(backend, device):
            return self
        children = [child.to(backend, device) for child in self.spaces]
        target = self.backend if backend is None else backend
        return type(self)(target, children, device, self._metadata)

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
    def is_bounded(self, manner: Boundedness = "both") -> bool:
        return all(child.is_bounded(manner) for child in self.spaces)

    @override
    def contains(self, x: Any) -> bool:
        return (
            isinstance(x, (tuple, list))
            and len(x) == len(self.spaces)
            and all(child.contains(value) for child, value in zip(self.spaces, x, strict=True))
        )

    @override
    def clip(self, x: Any) -> Any:
        return tuple(child.clip(value) for child, value in zip(self.spaces, x, strict=True))

    @override
    def is_subspaceeq(self, other: Space[Any, Any, Any, Any]) -> bool:
        return (
            isinstance(other, TupleSpace)
            and other.is_union == self.is_union
            and self.backend is other.backend
            and len(self.spaces) == len(other.spaces)
            and all(a.is_subspaceeq(b) for a, b in zip(self.spaces, other.spaces, strict=True))
        )

    @override
    def data_to(self, data: Any, backend: Any = None, device: Any = None) -> Any:
        return tuple(
            child.data_to(value, backend, device)
            for child, value in zip(self.spaces, data, strict=True)
        )

    @override
    def get_repr(
        self,
        abbreviate: bool = False,
        include_backend: bool = True,
        include_device: bool = True,
        include_dtype: bool = True,
    ) -> str:
        children = ", ".join(
            child.get_repr(abbreviate, False, include_device, include_dtype)
            for child in self.spaces
        )
        name = type(self).__name__
        backend = f", backend={self.backend!r}" if include_backend and not abbreviate else ""
        return f"{name.removesuffix('Space') if abbreviate else name}({children}{backend})"

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TupleSpace)
            and other.is_union == self.is_union
            and self.backend is other.backend
            and self.spaces == other.spaces
        )

    __hash__ = Space.__hash__
