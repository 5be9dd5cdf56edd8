from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from unienv_data.base import BatchBase, BatchSampler
from unienv_data.testing.batches import numbered


class OwnSampler(BatchSampler[Any, Any, Any, Any, Any]):
    """Reads with metadata, as programs for the original library do."""

    def __init__(self, batch_size: int) -> None:
        self.data = numbered(0, 30)
        super().__init__(self.data.single_space, self.data.single_metadata_space, batch_size)

    @override
    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        return self.data.get_at_with_metadata(idx)


def test_a_sampler_is_a_batch() -> None:
    sampler = OwnSampler(4)
    assert isinstance(sampler, BatchBase)
    assert sampler.sample()["x"].shape == (4, 2)
    assert sampler.sample_flat().shape == (4, 3)
    assert sorted(x for batch in sampler for x in batch["x"][:, 0]) == list(range(30))


def test_either_generator_gives_the_positions() -> None:
    for name in ("rng", "data_rng"):
        first, second = OwnSampler(4), OwnSampler(4)
        for sampler in (first, second):
            setattr(sampler, name, np.random.default_rng(3))
        assert first.sample_index().tolist() == second.sample_index().tolist()
        first.manual_seed(5)
        second.manual_seed(5)
        assert first.sample_index().tolist() == second.sample_index().tolist()


def test_seeds_of_both_generators() -> None:
    sampler = OwnSampler(4)
    sampler.rng, sampler.data_rng = np.random.default_rng(0), np.random.default_rng(0)
    sampler.manual_seed(1)
    drawn = sampler.rng.random(4).tolist(), sampler.data_rng.random(4).tolist()
    assert drawn[0] != drawn[1]
    sampler.manual_seed(1)
    assert (sampler.rng.random(4).tolist(), sampler.data_rng.random(4).tolist()) == drawn


def test_without_a_seed() -> None:
    assert OwnSampler(20).sample_index().tolist() != OwnSampler(20).sample_index().tolist()
