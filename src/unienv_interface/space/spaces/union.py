"""One of several spaces: samples say which."""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from unienv_interface.backends.base import BDeviceType, BDtypeType, BRNGType
from unienv_interface.errors import SpaceDefinitionError
from unienv_interface.space.spaces.tuple import TupleSpace

__all__ = ["UnionSpace"]


class UnionSpace(TupleSpace[BDeviceType, BDtypeType, BRNGType]):
    """Pairs ``(index, value)`` where `value` is a member of child `index`.

    The arguments are those of `TupleSpace`; there is at least one child.
    """

    is_union: ClassVar[bool] = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.spaces:
            raise SpaceDefinitionError("UnionSpace needs at least one child")

    @override
    def sample(self, rng: Any) -> tuple[Any, tuple[Any, ...]]:
        rng, chosen = self.backend.random.random_discrete_uniform(
            (1,), 0, len(self.spaces), rng=rng
        )
        index = int(chosen[0])
        rng, value = self.spaces[index].sample(rng)
        return rng, (index, value)

    @override
    def create_empty(self) -> tuple[Any, ...]:
        return 0, self.spaces[0].create_empty()

    @override
    def contains(self, x: Any) -> bool:
        if not isinstance(x, (tuple, list)) or len(x) != 2:
            return False
        index, value = x
        if isinstance(index, bool) or not hasattr(index, "__index__"):
            return False
        return 0 <= int(index) < len(self.spaces) and self.spaces[int(index)].contains(value)

    @override
    def clip(self, x: Any) -> Any:
        return x[0], self.spaces[int(x[0])].clip(x[1])

    @override
    def data_to(self, data: Any, backend: Any = None, device: Any = None) -> Any:
        return data[0], self.spaces[int(data[0])].data_to(data[1], backend, device)
