"""Texts of limited length."""

from __future__ import annotations

import operator
import string
from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import override

from unienv_interface.backends.base import BDeviceType, BDtypeType, BRNGType
from unienv_interface.errors import SpaceDefinitionError
from unienv_interface.space.space import Boundedness, Space, check_manner

__all__ = ["TextSpace"]

_SAMPLED = tuple(sorted(string.ascii_letters + string.digits))


class TextSpace(Space[str, BDeviceType, BDtypeType, BRNGType]):
    """`str` of `min_length` to `max_length` characters, all of a charset.

    Args:
        backend: Array backend, for random numbers and flattening.
        max_length: Most characters.
        min_length: Least characters.
        charset: Allowed characters, None for all.
        device: As for other spaces.
        metadata: JSON data.

    Raises:
        SpaceDefinitionError: Lengths that contradict each other, or no character to choose.
    """

    def __init__(
        self,
        backend: Any,
        max_length: int,
        *,
        min_length: int = 0,
        charset: Iterable[str] | None = None,
        device: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(backend, device=device, metadata=metadata)
        try:
            self.min_length = operator.index(min_length)
            self.max_length = operator.index(max_length)
        except TypeError as error:
            raise SpaceDefinitionError(f"TextSpace: a length is no int: {error}") from error
        if not 0 <= self.min_length <= self.max_length:
            raise SpaceDefinitionError(
                f"TextSpace: lengths {min_length} to {max_length} are no range from 0 on"
            )
        characters: frozenset[Any] | None = None if charset is None else frozenset(charset)
        self._charset: frozenset[str] | None = characters
        if characters is not None:
            if any(not isinstance(c, str) or len(c) != 1 for c in characters):
                raise SpaceDefinitionError("TextSpace: a charset holds single characters")
            if not characters and self.min_length:
                raise SpaceDefinitionError("TextSpace: no text can be made of an empty charset")
        self._characters = () if self._charset is None else tuple(sorted(self._charset))
        self._index = {character: n for n, character in enumerate(self._characters)}

    @property
    def charset(self) -> frozenset[str] | None:
        """Allowed characters, None for all."""
        return self._charset

    @property
    def charset_list(self) -> tuple[str, ...] | None:
        """Allowed characters, sorted; None when all are."""
        return None if self._charset is None else self._characters

    @property
    def charset_index(self) -> dict[str, int] | None:
        """Position of each allowed character in `charset_list`; None when all are."""
        return None if self._charset is None else dict(self._index)

    def character_index(self, character: str) -> int | None:
        """Position of one character in `charset_list`, None when it is not there."""
        return self._index.get(character)

    @override
    def to(self, backend: Any = None, device: Any = None) -> Any:
        if not self._moves(backend, device):
            return self
        return TextSpace(
            self.backend if backend is None else backend,
            self.max_length,
            min_length=self.min_length,
            charset=self._charset,
            device=device,
            metadata=self._metadata,
        )

    @override
    def sample(self, rng: Any) -> tuple[Any, str]:
        random, characters = self.backend.random, self._characters or _SAMPLED
        if self._charset is not None and not self._charset:
            return rng, ""
        rng, length = random.random_discrete_uniform(
            (), self.min_length, self.max_length + 1, rng=rng
        )
        count = int(length)
        rng, chosen = random.random_discrete_uniform((count,), 0, len(characters), rng=rng)
        return rng, "".join(characters[n] for n in self.backend.to_numpy(chosen).tolist())

    @override
    def create_empty(self) -> str:
        return ""

    @override
    def is_bounded(self, manner: Boundedness = "both") -> bool:
        """Only from below, as in the original library: the empty text comes before all others."""
        check_manner(manner)
        return manner == "below"

    @override
    def clip(self, x: str) -> str:
        return x[: self.max_length]

    @override
    def contains(self, x: Any) -> bool:
        return (
            isinstance(x, str)
            and self.min_length <= len(x) <= self.max_length
            and (self._charset is None or self._charset.issuperset(x))
        )

    @override
    def is_subspaceeq(self, other: Space[Any, Any, Any, Any]) -> bool:
        return (
            isinstance(other, TextSpace)
            and self.backend is other.backend
            and self.min_length >= other.min_length
            and self.max_length <= other.max_length
            and (
                other._charset is None
                or (self._charset is not None and self._charset <= other._charset)
            )
        )

    @override
    def data_to(self, data: Any, backend: Any = None, device: Any = None) -> Any:
        return data

    @override
    def get_repr(
        self,
        abbreviate: bool = False,
        include_backend: bool = True,
        include_device: bool = True,
        include_dtype: bool = True,
    ) -> str:
        if abbreviate:
            return f"Text({self.min_length}, {self.max_length})"
        charset = None if self._charset is None else "".join(self._characters)
        backend = f", backend={self.backend!r}" if include_backend else ""
        return f"TextSpace({self.min_length}, {self.max_length}, charset={charset!r}{backend})"

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TextSpace)
            and self.backend is other.backend
            and (self.min_length, self.max_length) == (other.min_length, other.max_length)
            and self._charset == other._charset
        )

    __hash__ = Space.__hash__
