"""Random batches of a buffer: uniform, repeatable, every sample once an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.samplers import StepSampler
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import DictSpace

SPACE = DictSpace(B, {"x": box("int64", ()), "y": box("float32", (2,))})


@pytest.fixture
def buffer(tmp_path: Path) -> Iterator[Any]:
    made: Any = ReplayBuffer.create(
        ParquetStorage, SPACE, cache_path=str(tmp_path / "b"), piece_size=8
    )
    rows = np.arange(50)
    made.extend({"x": rows, "y": np.stack([rows, rows], axis=1).astype(np.float32)})
    yield made
    made.close()


def test_batches_are_members_of_the_sampled_space(buffer: Any) -> None:
    sampler: Any = StepSampler(buffer, 16, seed=3)
    batch = sampler.sample()
    assert sampler.sampled_space.contains(batch)
    assert (batch["y"][:, 0] == batch["x"]).all()
    flat = sampler.sample_flat()
    assert flat.shape == (16, 3)
    assert (flat[:, 0] == flat[:, 1]).all()
    data, metadata = sampler.sample_with_metadata()
    assert metadata is None
    assert len(data["x"]) == 16


def test_a_seed_repeats_the_batches(buffer: Any) -> None:
    draws = []
    for _ in range(2):
        sampler: Any = StepSampler(buffer, 8, seed=5)
        draws.append([sampler.sample()["x"].tolist() for _ in range(4)])
    assert draws[0] == draws[1]
    sampler.manual_seed(5)
    assert sampler.sample()["x"].tolist() == draws[0][0]
    assert StepSampler(buffer, 8, seed=6).sample()["x"].tolist() != draws[0][0]


def test_every_sample_comes_as_often(buffer: Any) -> None:
    sampler: Any = StepSampler(buffer, 100, seed=0)
    counts = np.zeros(50)
    for _ in range(100):
        np.add.at(counts, sampler.sample()["x"], 1)
    expected = 10_000 / 50
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 85.4  # 49 degrees of freedom, 0.1 percent


def test_an_epoch_has_every_sample_once(buffer: Any) -> None:
    sampler: Any = StepSampler(buffer, 16, seed=1)
    for iterate in (sampler.epoch_iter, sampler.__iter__):
        batches = [batch["x"] for batch in iterate()]
        assert [len(batch) for batch in batches] == [16, 16, 16, 2]
        seen = np.concatenate(batches)
        assert sorted(seen.tolist()) == list(range(50))
        assert seen.tolist() != list(range(50))
    assert sum(len(flat) for flat in sampler.epoch_flat_iter()) == 50


def test_nothing_to_draw_from(tmp_path: Path) -> None:
    empty: Any = ReplayBuffer.create(ParquetStorage, SPACE, cache_path=str(tmp_path / "e"))
    with pytest.raises((ValueError, IndexError)):
        StepSampler(empty, 4).sample()
    with pytest.raises(ValueError, match="batch_size"):
        StepSampler(empty, 0)
    empty.close()
