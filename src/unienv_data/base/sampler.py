"""Random batches of a batch, and shuffled passes over it."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, Generic

from typing_extensions import TypeVar, override

from unienv_data.base.batch import BatchBase
from unienv_data.errors import SampleError, StorageArgumentError
from unienv_interface.space import DictSpace, Space
from unienv_interface.space.space_utils import batch_utils as sbu

__all__ = [
    "BatchSampler",
    "SamplerArrayType",
    "SamplerBatchT",
    "SamplerDeviceType",
    "SamplerDtypeType",
    "SamplerRNGType",
]

_LARGEST_SEED = 2**31 - 1

SamplerBatchT = TypeVar("SamplerBatchT", default=Any)
SamplerArrayType = TypeVar("SamplerArrayType", default=Any)
SamplerDeviceType = TypeVar("SamplerDeviceType", default=Any)
SamplerDtypeType = TypeVar("SamplerDtypeType", default=Any)
SamplerRNGType = TypeVar("SamplerRNGType", default=Any)


class BatchSampler(
    BatchBase[SamplerBatchT, SamplerArrayType, SamplerDeviceType, SamplerDtypeType, SamplerRNGType],
    abc.ABC,
    Generic[SamplerBatchT, SamplerArrayType, SamplerDeviceType, SamplerDtypeType, SamplerRNGType],
):
    """Draws batches of `batch_size` samples from `data`.

    A subclass overrides one way to read, as for every batch. `sample_index` and `epoch_index` say
    which samples are read, so that subclasses and workers can change one without the other.

    Attributes:
        data: Where samples come from.
        rng: Generator of numbers drawn while batches are made, None when none are.
        data_rng: Generator of positions, of the backend of `data`. A sampler that only sets `rng`
            draws positions from that one.
        batch_size: Samples a batch.
    """

    is_mutable: bool = False
    data: BatchBase[Any, Any, Any, Any, Any]
    rng: Any = None
    data_rng: Any = None

    def __init__(
        self,
        single_space: Space[Any, Any, Any, Any],
        single_metadata_space: DictSpace[Any, Any, Any] | None = None,
        batch_size: int = 1,
    ) -> None:
        """Chooses what a batch looks like.

        Args:
            single_space: Space of one sample.
            single_metadata_space: Space of one sample's metadata, None when there is none.
            batch_size: Samples a batch.

        Raises:
            StorageArgumentError: `batch_size` is no positive int.
        """
        is_int = hasattr(batch_size, "__index__") and not isinstance(batch_size, bool)
        if not is_int or batch_size < 1:
            raise StorageArgumentError(
                f"{type(self).__name__}: batch_size should be an int of at least 1, "
                f"got {batch_size!r}",
                found=batch_size,
            )
        super().__init__(single_space, single_metadata_space)
        self.batch_size = int(batch_size)
        self._sampled_space: Any = sbu.batch_space(single_space, self.batch_size)
        self._sampled_metadata_space: Any = (
            None
            if single_metadata_space is None
            else sbu.batch_space(single_metadata_space, self.batch_size)
        )

    @property
    def sampled_space(self) -> Any:
        """Space of one batch."""
        return self._sampled_space

    @property
    def sampled_metadata_space(self) -> Any:
        """Space of one batch's metadata, or None."""
        return self._sampled_metadata_space

    def manual_seed(self, seed: int) -> None:
        """Starts the random numbers anew."""
        if self.data_rng is None and self.rng is not None:
            self.rng = self._new_rng(seed)
            return
        self.data_rng = self._new_rng(seed)
        if self.rng is not None:  # a stream of its own
            random = self.backend.random
            self.rng = random.random_number_generator(self._drawn_seed(), device=self.device)

    @property
    def _index_batch(self) -> BatchBase[Any, Any, Any, Any, Any]:
        """The batch whose backend and device positions are drawn for."""
        return getattr(self, "data", self)

    def _new_rng(self, seed: int | None) -> Any:
        batch = self._index_batch
        return batch.backend.random.random_number_generator(seed, device=batch.device)

    def _draw(self, function: str, *args: Any, **kwargs: Any) -> Any:
        """Random numbers for positions, from the generator that gives them."""
        batch = self._index_batch
        own = self.data_rng is None and self.rng is not None
        rng = self.rng if own else self.data_rng
        if rng is None:
            rng = self._new_rng(None)
        draw = getattr(batch.backend.random, function)
        rng, drawn = draw(*args, rng=rng, device=batch.device, **kwargs)
        if own:
            self.rng = rng
        else:
            self.data_rng = rng
        return drawn

    def _drawn_seed(self) -> int:
        """A seed drawn from the generator of positions."""
        return int(self._draw("random_discrete_uniform", (1,), 0, _LARGEST_SEED)[0])

    @override
    def __len__(self) -> int:
        """Number of samples to draw from."""
        return len(self.data)

    # -- random batches ----------------------------------------------------------------------

    def sample_index(self) -> Any:
        """Positions drawn uniformly with replacement, shape ``(batch_size,)``.

        Raises:
            SampleError: There is nothing to draw from.
        """
        count = len(self)
        if count == 0:
            raise SampleError("sample: there are no samples to draw from")
        return self._draw(
            "random_discrete_uniform",
            (self.batch_size,),
            0,
            count,
            dtype=self._index_batch.backend.default_index_dtype,
        )

    def sample(self) -> Any:
        """A random batch."""
        return self.get_at(self.sample_index())

    def sample_with_metadata(self) -> tuple[Any, dict[str, Any] | None]:
        """A random batch and its metadata."""
        return self.get_at_with_metadata(self.sample_index())

    def sample_flat(self) -> Any:
        """A random batch of flat samples, shape ``(batch_size, flat_dim)``."""
        return self.get_flattened_at(self.sample_index())

    def sample_flat_with_metadata(self) -> tuple[Any, dict[str, Any] | None]:
        """A random batch of flat samples and its metadata."""
        return self.get_flattened_at_with_metadata(self.sample_index())

    # -- epochs ------------------------------------------------------------------------------

    def epoch_index(self) -> Iterator[Any]:
        """Positions of one random permutation, batch by batch; the last may be shorter.

        The permutation is drawn by the first `next`; samples added later are not part of it.
        """
        count = len(self)
        order = self._draw("random_permutation", count)
        for start in range(0, count, self.batch_size):
            yield order[start : start + self.batch_size]

    def epoch_iter(self) -> Iterator[Any]:
        """Every sample once, in random order."""
        return map(self.get_at, self.epoch_index())

    def epoch_iter_with_metadata(self) -> Iterator[tuple[Any, dict[str, Any] | None]]:
        """Every sample once, in random order, with metadata."""
        return map(self.get_at_with_metadata, self.epoch_index())

    def epoch_flat_iter(self) -> Iterator[Any]:
        """Every sample once, flat, in random order."""
        return map(self.get_flattened_at, self.epoch_index())

    def epoch_flat_iter_with_metadata(self) -> Iterator[tuple[Any, dict[str, Any] | None]]:
        """Every sample once, flat, in random order, with metadata."""
        return map(self.get_flattened_at_with_metadata, self.epoch_index())

    def __iter__(self) -> Iterator[Any]:
        return self.epoch_iter()
