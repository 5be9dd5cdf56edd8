"""One of several spaces: samples say which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from unienv_interface.backends.base import BDeviceType, BDtypeType, BRNGType
from unienv_interface.errors import SpaceDefinitionError
from unienv_interface.space.spaces._children import SequenceSpace

__all__ = ["UnionSpace"]


class UnionSpace(SequenceSpace[tuple[int, Any], BDeviceType, BDtypeType, BRNGType]):
    """Pairs ``(index, value)`` where `value` is a member of child `index`.

    Args:
        backend: Array backend of all children.
        spaces: The children, at least one.
        device: By default the children's common device.
        metadata: JSON data.

    Raises:
        SpaceDefinitionError: No child; or one is no space, or of another backend.
    """

    def __init__(
        self,
        backend: Any,
        spaces: Iterable[Any],
        device: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(backend, spaces, device, metadata)
        if not self.spaces:
            raise SpaceDefinitionError("UnionSpace needs at least one child")

    @override
    def sample(self, rng: Any) -> tuple[Any, tuple[int, Any]]:
        rng, chosen = self.backend.random.random_discrete_uniform((), 0, len(self.spaces), rng=rng)
        index = int(chosen)
        rng, value = self.spaces[index].sample(rng)
        return rng, (index, value)

    @override
    def create_empty(self) -> tuple[int, Any]:
        return 0, self.spaces[0].create_empty()

    @override
    def contains(self, x: Any) -> bool:
        if not isinstance(x, tuple) or len(x) != 2:
            return False
        index, value = x
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            return False
        chosen = int(index)
        return 0 <= chosen < len(self.spaces) and self.spaces[chosen].contains(value)

    @override
    def clip(self, x: Any) -> tuple[int, Any]:
        return x[0], self.spaces[int(x[0])].clip(x[1])

    @override
    def data_to(self, data: Any, backend: Any = None, device: Any = None) -> tuple[int, Any]:
        return data[0], self.spaces[int(data[0])].data_to(data[1], backend, device)
