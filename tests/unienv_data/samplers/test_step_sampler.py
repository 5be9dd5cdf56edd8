from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from unienv_data.errors import ReadOnlyError
from unienv_data.samplers import StepSampler
from unienv_data.testing.batches import numbered


def ids(metadata: Any) -> Any:
    return metadata["id"].tolist()


def test_batches() -> None:
    sampler: Any = StepSampler(numbered(0, 20), 4, seed=1)
    assert len(sampler) == 20
    assert not sampler.is_mutable
    for _ in range(20):
        data, metadata = sampler.sample_with_metadata()
        assert sampler.sampled_space.contains(data)
        assert sampler.sampled_metadata_space.contains(metadata)
        assert data["x"][:, 0].tolist() == ids(metadata)
    assert sampler.sample()["x"].shape == (4, 2)
    assert sampler.sample_flat().shape == (4, 3)
    flat, metadata = sampler.sample_flat_with_metadata()
    assert flat[:, 1].tolist() == ids(metadata)


def test_every_step_is_drawn_about_as_often() -> None:
    sampler = StepSampler(numbered(0, 10), 100, seed=0)
    counts: Counter[int] = Counter()
    for _ in range(100):
        counts.update(sampler.sample_index().tolist())
    assert sorted(counts) == list(range(10))
    assert all(abs(count - 1000) < 150 for count in counts.values())


def test_seeds() -> None:
    first, second = (StepSampler(numbered(0, 99), 8, seed=5) for _ in range(2))
    assert first.sample_index().tolist() == second.sample_index().tolist()
    drawn = first.sample_index().tolist()
    first.manual_seed(7)
    second.manual_seed(7)
    assert first.sample_index().tolist() == second.sample_index().tolist() != drawn
    assert [*map(len, first.epoch_index())] == [8] * 12 + [3]
    unseeded = StepSampler(numbered(0, 10**6), 8).sample_index().tolist()
    assert unseeded != StepSampler(numbered(0, 10**6), 8).sample_index().tolist()


@pytest.mark.parametrize("batch_size", [1, 3, 20, 50])
def test_an_epoch_has_every_step_once(batch_size: int) -> None:
    sampler: Any = StepSampler(numbered(0, 20), batch_size, seed=1)
    passes = [
        [batch["x"][:, 0].tolist() for batch in sampler],
        [batch["x"][:, 0].tolist() for batch in sampler.epoch_iter()],
        [ids(metadata) for _, metadata in sampler.epoch_iter_with_metadata()],
        [flat[:, 1].tolist() for flat in sampler.epoch_flat_iter()],
        [ids(metadata) for _, metadata in sampler.epoch_flat_iter_with_metadata()],
    ]
    for batches in passes:
        assert sorted(np.concatenate(batches).tolist()) == list(range(20))
        assert {len(batch) for batch in batches[:-1]} <= {batch_size}
        assert len(batches[-1]) == (20 % batch_size or min(20, batch_size))
    assert passes[0] != passes[1]


def test_reading_by_index() -> None:
    sampler: Any = StepSampler(numbered(0, 20), 4)
    assert sampler[3]["x"].tolist() == [3, -3]
    assert sampler.get_flattened_at([3, 1])[:, 1].tolist() == [3, 1]
    with pytest.raises(ReadOnlyError):
        sampler[3] = sampler[2]


def test_another_device() -> None:
    sampler: Any = StepSampler(numbered(0, 20), 4, seed=0, device="cpu")
    assert sampler.device == "cpu"
    assert sampler.single_metadata_space.device == "cpu"
    data, metadata = sampler.sample_with_metadata()
    assert data["x"][:, 0].tolist() == ids(metadata)
    assert sampler.sample_flat().shape == (4, 3)


def test_nothing_to_draw_from() -> None:
    sampler = StepSampler(numbered(0, 0), 4)
    with pytest.raises(ValueError, match="no samples"):
        sampler.sample()
    assert list(sampler.epoch_iter()) == []


@pytest.mark.parametrize("batch_size", [0, -1])
def test_no_batch_size(batch_size: int) -> None:
    with pytest.raises(AssertionError):
        StepSampler(numbered(0, 3), batch_size)
