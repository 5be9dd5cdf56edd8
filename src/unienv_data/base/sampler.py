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
from unienv_interface.utils.seed_util import next_seed_rng

__all__ = [
    "BatchSampler",
    "SamplerArrayType",
    "SamplerBatchT",
    "SamplerDeviceType",
    "SamplerDtypeType",
    "SamplerRNGType",
]

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
        rng: Generator of this sampler's numbers; None draws a fresh one on first use.
        data_rng: Generator for numbers drawn while reading, None when none are.
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
            StorageArgumentError: `batch_size` is not positive.
        """
        if batch_size < 1:
            raise StorageArgumentError(
                f"{type(self).__name__}: batch_size should be at least 1, got {batch_size}",
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
        """Starts the random numbers anew; those drawn while reading get a stream of their own."""
        self.rng = self._new_rng(seed)
        if self.data_rng is not None:
            self.rng, other = next_seed_rng(self.rng, self._index_batch.backend)
            self.data_rng = self._new_rng(other)

    @property
    def _index_batch(self) -> BatchBase[Any, Any, Any, Any, Any]:
        """The batch whose backend and device positions are drawn for."""
        return getattr(self, "data", self)

    def _new_rng(self, seed: int | None) -> Any:
        batch = self._index_batch
        return batch.backend.random.random_number_generator(seed, device=batch.device)

    def _some_rng(self) -> Any:
        return self._new_rng(None) if self.rng is None else self.rng

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
        batch = self._index_batch
        self.rng, index = batch.backend.random.random_discrete_uniform(
            (self.batch_size,),
            0,
            count,
            rng=self._some_rng(),
            dtype=batch.backend.default_index_dtype,
            device=batch.device,
        )
        return index

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
        count, batch = len(self), self._index_batch
        self.rng, order = batch.backend.random.random_permutation(
            count, rng=self._some_rng(), device=batch.device
        )
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
