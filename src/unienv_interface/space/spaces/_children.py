"""What spaces with a sequence of children share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from typing_extensions import override

from unienv_interface.backends.base import BDeviceType, BDtypeType, BRNGType
from unienv_interface.space.space import Boundedness, Space, SpaceDataT
from unienv_interface.space.spaces.dict import as_child, common_device

__all__ = ["SequenceSpace"]


class SequenceSpace(Space[SpaceDataT, BDeviceType, BDtypeType, BRNGType]):
    """A space over several children, in order.

    Args:
        backend: Array backend of all children.
        spaces: The children.
        device: By default the children's common device.
        metadata: JSON data.

    Raises:
        SpaceDefinitionError: A child is no space, or of another backend.
    """

    def __init__(
        self,
        backend: Any,
        spaces: Iterable[Any],
        device: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.spaces = tuple(as_child(backend, n, child) for n, child in enumerate(spaces))
        if device is None:
            device = common_device(self.spaces)
        super().__init__(backend, device=device, metadata=metadata)

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
    def is_bounded(self, manner: Boundedness = "both") -> bool:
        super().is_bounded(manner)  # checks `manner`
        return all(child.is_bounded(manner) for child in self.spaces)

    @override
    def is_subspaceeq(self, other: Space[Any, Any, Any, Any]) -> bool:
        return (
            isinstance(other, SequenceSpace)
            and type(other) is type(self)
            and self.backend is other.backend
            and len(self.spaces) == len(other.spaces)
            and all(a.is_subspaceeq(b) for a, b in zip(self.spaces, other.spaces, strict=True))
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
            isinstance(other, SequenceSpace)
            and type(other) is type(self)
            and self.backend is other.backend
            and self.spaces == other.spaces
        )

    __hash__ = Space.__hash__
