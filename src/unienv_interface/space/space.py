"""The base of all spaces: which samples belong, and how to make some."""

from __future__ import annotations

import abc
import copy
from collections.abc import Mapping
from typing import Any, Generic, Literal

from typing_extensions import Self, TypeVar, override

from unienv_interface.backends.base import BDeviceType, BDtypeType, BRNGType
from unienv_interface.errors import SpaceDefinitionError
from unienv_interface.space.metadata import SpaceMetadata

__all__ = ["Boundedness", "Space", "SpaceDataT"]

SpaceDataT = TypeVar("SpaceDataT", default=Any)
Boundedness = Literal["both", "below", "above"]


class Space(abc.ABC, Generic[SpaceDataT, BDeviceType, BDtypeType, BRNGType]):
    """A set of samples.

    Attributes:
        backend: Array backend of the samples.
        shape: Shape of a sample, None where it has none.
        dtype: Dtype of a sample as given, None where it has none.
        device: Where samples lie, None for anywhere.
    """

    def __init__(
        self,
        backend: Any,
        shape: Any = None,
        device: Any = None,
        dtype: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.backend = backend
        self.shape: Any = shape
        self.dtype: Any = dtype
        self.device: Any = device
        self._metadata = SpaceMetadata(metadata)

    @property
    def metadata(self) -> SpaceMetadata:
        """JSON data about the space; equality ignores it."""
        return self._metadata

    def with_metadata(
        self, metadata: Mapping[str, Any] | None = None, *, replace: bool = False, **updates: Any
    ) -> Self:
        """A copy with other metadata.

        Args:
            metadata: Entries to add.
            replace: Drop the present entries first.
            **updates: Further entries.
        """
        entries: dict[str, Any] = {} if replace else dict(self._metadata)
        entries.update(metadata or {})
        entries.update(updates)
        other = copy.copy(self)
        other._metadata = SpaceMetadata(entries)
        return other

    @abc.abstractmethod
    def to(self, backend: Any = None, device: Any = None) -> Any:
        """The same space on another backend or device; itself when nothing changes."""

    @abc.abstractmethod
    def sample(self, rng: Any) -> tuple[Any, Any]:
        """Draws a member: ``(rng, sample)``."""

    @abc.abstractmethod
    def create_empty(self) -> Any:
        """A sample to be overwritten; it need not be a member."""

    @abc.abstractmethod
    def contains(self, x: Any) -> bool:
        """Whether `x` is a member."""

    @abc.abstractmethod
    def data_to(self, data: Any, backend: Any = None, device: Any = None) -> Any:
        """A sample on another backend or device."""

    @abc.abstractmethod
    def get_repr(
        self,
        abbreviate: bool = False,
        include_backend: bool = True,
        include_device: bool = True,
        include_dtype: bool = True,
    ) -> str:
        """A description, with or without its details."""

    def is_bounded(self, manner: Boundedness = "both") -> bool:
        """Whether members are limited from below, above or on both sides.

        Raises:
            ValueError: `manner` is none of these.
        """
        check_manner(manner)
        return False

    def clip(self, x: Any) -> Any:
        """The member nearest to `x`, where that makes sense; else `x` itself."""
        return x

    def is_subspaceeq(self, other: Space[Any, Any, Any, Any]) -> bool:
        """Whether every member is one of `other` as well."""
        return bool(self == other)

    def is_subspace(self, other: Space[Any, Any, Any, Any]) -> bool:
        """Whether it is a subset of `other` and not the other way round."""
        return self.is_subspaceeq(other) and not other.is_subspaceeq(self)

    def _moves(self, backend: Any, device: Any) -> bool:
        return (backend is not None and backend is not self.backend) or (
            device is not None and device != self.device
        )

    def _move_array(self, data: Any, backend: Any, device: Any) -> Any:
        if backend is not None and backend is not self.backend:
            data = backend.from_other_backend(self.backend, data)
        target = self.backend if backend is None else backend
        return data if device is None else target.to_device(data, device)

    def __contains__(self, x: Any) -> bool:
        return self.contains(x)

    @override
    def __repr__(self) -> str:
        return self.get_repr()

    @abc.abstractmethod
    @override
    def __eq__(self, other: object) -> bool:
        """Same kind, backend, shapes, dtypes and bounds; metadata does not matter."""

    @override
    def __hash__(self) -> int:
        return hash((type(self).__name__, repr(self.backend), str(self.shape)))


def check_manner(manner: str) -> None:
    """Refuses an unknown `manner` of being bounded."""
    if manner not in ("both", "below", "above"):
        raise ValueError(f"manner should be 'both', 'below' or 'above', got {manner!r}")


def check_shape(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of ints.

    Raises:
        SpaceDefinitionError: An entry is no axis length.
    """
    try:
        entries = tuple(shape)
    except TypeError as error:
        raise SpaceDefinitionError(f"a shape is a sequence of ints, got {shape!r}") from error
    result = []
    for entry in entries:
        if isinstance(entry, bool) or not hasattr(entry, "__index__") or entry.__index__() < 0:
            raise SpaceDefinitionError(f"a shape holds axis lengths, got {shape!r}", found=shape)
        result.append(entry.__index__())
    return tuple(result)
