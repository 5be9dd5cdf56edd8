"""Batches served by worker processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.samplers import MultiprocessingSampler, StepSampler
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.strategies import box
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import DictSpace

SPACE = DictSpace(B, {"x": box("int64", ())})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_serve_every_sample(tmp_path: Path, method: str) -> None:
    import multiprocessing

    with ReplayBuffer.create(ParquetStorage, SPACE, cache_path=str(tmp_path / "b")) as made:
        made.extend({"x": np.arange(40)})
    reader: Any = ReplayBuffer.load_from(tmp_path / "b", backend=B)
    sampler: Any = MultiprocessingSampler(
        StepSampler(reader, 8, seed=0), n_workers=2, ctx=multiprocessing.get_context(method)
    )
    try:
        draws = [sampler.sample()["x"] for _ in range(6)]
        assert all(len(draw) == 8 for draw in draws)
        # Workers do not repeat each other.
        assert len({tuple(draw.tolist()) for draw in draws}) > 1
        seen = np.concatenate([batch["x"] for batch in sampler.epoch_iter()])
        assert sorted(seen.tolist()) == list(range(40))
    finally:
        sampler.close()
        reader.close()
