"""A killed `repair` can be run again, whatever instant it was killed at."""

from __future__ import annotations

from pathlib import Path

import pytest

from unienv_data.testing.faults import why_unavailable
from unienv_data.testing.repair_kills import report


@pytest.mark.slow
@pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
def test_a_killed_repair_is_run_again(tmp_path: Path) -> None:
    found = report(tmp_path, every=6)
    assert found.faults == []
    # Each kind of damage was repaired by several calls, each of them a place to die at.
    assert set(found.kills) == {
        "plain-snappy", "plain-gzip", "committing-0", "committing-2", "interrupted", "ring",
    }  # fmt: skip
    assert min(found.kills.values()) >= 2
