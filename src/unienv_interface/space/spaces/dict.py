"""Mappings from keys to samples of other spaces."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping, Sequence
from typing import Any

from typing_extensions import Self, override

from unienv_interface.backends.base import BDeviceType, BDtypeType, BRNGType
from unienv_interface.errors import SpaceDefinitionError
from unienv_interface.space.space import Boundedness, Space, check_manner

__all__ = ["DictSpace", "as_child", "common_device"]


class DictSpace(Space[dict[str, Any], BDeviceType, BDtypeType, BRNGType]):
    """Dicts with exactly these keys.

    Args:
        backend: Array backend of all children.
        spaces: A mapping, sorted by key, or a sequence of pairs, whose order is kept. Nested plain
            mappings become DictSpaces.
        device: By default the children's common device.
        metadata: JSON data.

    Raises:
        SpaceDefinitionError: A child is no space, or of another backend.
    """

    def __init__(
        self,
        backend: Any,
        spaces: Mapping[str, Any] | Sequence[tuple[str, Any]] | None = None,
        device: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if spaces is None:
            pairs: list[tuple[str, Any]] = []
        elif isinstance(spaces, Mapping):
            try:
                pairs = [(key, spaces[key]) for key in sorted(spaces)]
            except TypeError:  # keys of several kinds have no order
                pairs = list(spaces.items())
        else:
            pairs = list(spaces)
        self.spaces: dict[str, Space[Any, Any, Any, Any]] = {}
        for key, child in pairs:
            self.spaces[key] = as_child(backend, key, child)
        if device is None:
            device = common_device(self.spaces.values())
        super().__init__(backend, device=device, metadata=metadata)

    def keys(self) -> KeysView[str]:
        """The keys, in order."""
        return self.spaces.keys()

    def __getitem__(self, key: str) -> Space[Any, Any, Any, Any]:
        return self.spaces[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.spaces[key] = as_child(self.backend, key, value)

    def __delitem__(self, key: str) -> None:
        del self.spaces[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.spaces)

    def __len__(self) -> int:
        return len(self.spaces)

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.spaces = dict(self.spaces)  # which can be changed
        return other

    @override
    def to(self, backend: Any = None, device: Any = None) -> Any:
        if not self._moves(backend, device):
            return self
        pairs = [(key, child.to(backend, device)) for key, child in self.spaces.items()]
        target = self.backend if backend is None else backend
        return DictSpace(target, pairs, device, self._metadata)

    @override
    def sample(self, rng: Any) -> tuple[Any, dict[str, Any]]:
        result = {}
        for key, child in self.spaces.items():
            rng, result[key] = child.sample(rng)
        return rng, result

    @override
    def create_empty(self) -> dict[str, Any]:
        return {key: child.create_empty() for key, child in self.spaces.items()}

    @override
    def is_bounded(self, manner: Boundedness = "both") -> bool:
        check_manner(manner)
        return all(child.is_bounded(manner) for child in self.spaces.values())

    @override
    def contains(self, x: Any) -> bool:
        return (
            isinstance(x, Mapping)
            and x.keys() == self.spaces.keys()
            and all(child.contains(x[key]) for key, child in self.spaces.items())
        )

    @override
    def clip(self, x: Any) -> Any:
        return {key: child.clip(x[key]) for key, child in self.spaces.items()}

    @override
    def is_subspaceeq(self, other: Space[Any, Any, Any, Any]) -> bool:
        return (
            isinstance(other, DictSpace)
            and self.backend is other.backend
            and all(
                key in other.spaces and child.is_subspaceeq(other.spaces[key])
                for key, child in self.spaces.items()
            )
        )

    @override
    def data_to(self, data: Any, backend: Any = None, device: Any = None) -> Any:
        return {
            key: child.data_to(data[key], backend, device) for key, child in self.spaces.items()
        }

    @override
    def get_repr(
        self,
        abbreviate: bool = False,
        include_backend: bool = True,
        include_device: bool = True,
        include_dtype: bool = True,
    ) -> str:
        children = ", ".join(
            f"{key!r}: {child.get_repr(abbreviate, False, include_device, include_dtype)}"
            for key, child in self.spaces.items()
        )
        name = "Dict" if abbreviate else "DictSpace"
        backend = f", backend={self.backend!r}" if include_backend and not abbreviate else ""
        return f"{name}({children}{backend})"

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DictSpace)
            and self.backend is other.backend
            and self.spaces == other.spaces
        )

    __hash__ = Space.__hash__


def as_child(backend: Any, key: Any, child: Any) -> Space[Any, Any, Any, Any]:
    """Checks a child; a plain mapping becomes a DictSpace.

    Raises:
        SpaceDefinitionError: It is no space, or of another backend.
    """
    if isinstance(child, Mapping):
        child = DictSpace(backend, child)
    if not isinstance(child, Space):
        raise SpaceDefinitionError(
            f"the child {key!r} is no space but {type(child).__name__}", column=key
        )
    if child.backend is not backend:
        raise SpaceDefinitionError(
            f"the child {key!r} is of backend {child.backend!r}, expected {backend!r}", column=key
        )
    return child


def common_device(spaces: Any) -> Any:
    """The device that all spaces share, None when they differ."""
    devices = [space.device for space in spaces]
    return devices[0] if devices and all(device == devices[0] for device in devices) else None
