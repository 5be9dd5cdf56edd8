"""Random batches of a batch, and shuffled passes over it."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, Generic

from typing_extensions import TypeVar

from unienv_data.base.batch import BatchBase
from unienv_interface.space import DictSpace, Space
from unienv_interface.space.space_utils import batch_utils as sbu
from unienv_interface.space.space_utils import flatten_utils as sfu

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
    abc.ABC,
    Generic[SamplerBatchT, SamplerArrayType, SamplerDeviceType, SamplerDtypeType, SamplerRNGType],
):
    """Draws batches of `batch_size` samples from `data`.

    Attributes:
        data: Where samples come from.
        rng: Generator of this sampler's numbers.
        data_rng: Generator for numbers drawn while reading, None when none are.
        single_space: Space of one sample.
        single_metadata_space: Space of one sample's metadata, or None.
        batch_size: Samples a batch.
    """

    is_mutable: bool = False
    data: BatchBase[Any, Any, Any, Any, Any]
    rng: Any
    data_rng: Any = None

    def __init__(
        self,
        single_space: Space[Any, Any, Any, Any],
        single_metadata_space: DictSpace[Any, Any, Any] | None = None,
        batch_size: int = 1,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size should be at least 1, got {batch_size}")
        self.single_space = single_space
        self.single_metadata_space = single_metadata_space
        self.batch_size = int(batch_size)
        self._sampled_space: Any = sbu.batch_space(single_space, self.batch_size)
        self._sampled_metadata_space: Any = (
            None
            if single_metadata_space is None
            else sbu.batch_space(single_metadata_space, self.batch_size)
        )

    @property
    def backend(self) -> Any:
        """Array backend of the samples."""
        return self.single_space.backend

    @property
    def device(self) -> Any:
        """Device of the samples."""
        return self.single_space.device

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
        random = self.backend.random
        self.rng = random.random_number_generator(seed, device=self.device)
        if self.data_rng is not None:
            self.data_rng = random.random_number_generator(seed, device=self.device)

    def __len__(self) -> int:
        """Number of samples to draw from."""
        return len(self.data)

    # -- random batches ----------------------------------------------------------------------

    def sample_index(self) -> Any:
        """Positions drawn uniformly with replacement, shape ``(batch_size,)``.

        Raises:
            ValueError: There is nothing to draw from.
        """
        count = len(self)
        if count == 0:
            raise ValueError("sample: there are no samples to draw from")
        self.rng, index = self.backend.random.random_discrete_uniform(
            (self.batch_size,),
            0,
            count,
            rng=self.rng,
            dtype=self.backend.default_index_dtype,
            device=self.device,
        )
        return index

    @abc.abstractmethod
    def _read(self, index: Any) -> tuple[Any, dict[str, Any] | None]:
        """Samples at positions, and their metadata."""

    def sample(self) -> Any:
        """A random batch."""
        return self.sample_with_metadata()[0]

    def sample_with_metadata(self) -> tuple[Any, dict[str, Any] | None]:
        """A random batch and its metadata."""
        return self._read(self.sample_index())

    def sample_flat(self) -> Any:
        """A random batch of flat samples, shape ``(batch_size, flat_dim)``."""
        return self._flat(self.sample())

    def sample_flat_with_metadata(self) -> tuple[Any, dict[str, Any] | None]:
        """A random batch of flat samples and its metadata."""
        data, metadata = self.sample_with_metadata()
        return self._flat(data), metadata

    def _flat(self, data: Any) -> Any:
        return sfu.flatten_data(self._sampled_space, data, start_dim=1)

    # -- epochs ------------------------------------------------------------------------------

    def epoch_index(self) -> Iterator[Any]:
        """Positions of one random permutation, batch by batch; the last may be shorter."""
        self.rng, order = self.backend.random.random_permutation(
            len(self), rng=self.rng, device=self.device
        )
        for start in range(0, len(self), self.batch_size):
            yield order[start : start + self.batch_size]

    def epoch_iter_with_metadata(self) -> Iterator[tuple[Any, dict[str, Any] | None]]:
        """Every sample once, in random order, with metadata."""
        for index in self.epoch_index():
            yield self._read(index)

    def epoch_iter(self) -> Iterator[Any]:
        """Every sample once, in random order."""
        for data, _ in self.epoch_iter_with_metadata():
            yield data

    def epoch_flat_iter_with_metadata(self) -> Iterator[tuple[Any, dict[str, Any] | None]]:
        """Every sample once, flat, in random order, with metadata."""
        for data, metadata in self.epoch_iter_with_metadata():
            yield self._flat(data), metadata

    def epoch_flat_iter(self) -> Iterator[Any]:
        """Every sample once, flat, in random order."""
        for data, _ in self.epoch_flat_iter_with_metadata():
            yield data

    def __iter__(self) -> Iterator[Any]:
        return self.epoch_iter()

    def close(self) -> None:
        """Lets resources go."""
