"""Readers beside a writer see whole rows of one commit, whatever the writer does."""

from __future__ import annotations

from pathlib import Path

import pytest

from unienv_data.testing.soak import SoakReport, soak
from unienv_data.testing.soak_buffer import soak_buffer


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6, 12, 18, 20])
def test_readers_beside_a_writer_of_a_storage(tmp_path: Path, seed: int) -> None:
    report = soak(tmp_path, calls=60, seed=seed, readers=2, reads=60)
    assert report.faults == []
    assert report.commits >= 40
    assert report.reads >= 120
    assert report.snapshots > 20


@pytest.mark.slow
def test_readers_beside_a_writer_of_a_buffer(tmp_path: Path) -> None:
    total = SoakReport()
    for seed in range(4):
        total.add(soak_buffer(tmp_path, calls=60, seed=seed, readers=2, reads=60))
    assert total.faults == []
    assert total.reads >= 480
