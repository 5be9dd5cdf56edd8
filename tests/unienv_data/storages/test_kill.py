"""Nothing acknowledged is lost when the writer is killed, at any instant."""

from __future__ import annotations

from pathlib import Path

import pytest

from unienv_data.testing.crash import kill_repeatedly


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1000])
def test_a_killed_writer_leaves_what_it_acknowledged(tmp_path: Path, seed: int) -> None:
    report = kill_repeatedly(tmp_path, runs=12, seed=seed)
    assert report.faults == []
    assert report.kills == 48
    assert report.in_flight > 0  # how many depends on the load of the machine
