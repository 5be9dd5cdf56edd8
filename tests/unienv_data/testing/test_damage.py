"""No damage is read as data: a bounded form of `python -m unienv_data.testing.damage`."""

from __future__ import annotations

from pathlib import Path

import pytest

from unienv_data.testing.damage import run_damage


@pytest.mark.slow
def test_damaged_stores_give_the_right_rows_or_an_error_of_ours(tmp_path: Path) -> None:
    report = run_damage(800, 0, tmp_path)
    assert report.faults == []
    assert report.mutations == 800
    # Each kind of end was reached, or the test would say little.
    ends = report.outcomes
    assert ends["read: right"] > 100
    assert ends["read: CorruptPieceError"] > 100
    assert ends["read: ManifestError"] > 100
    assert ends["read: MissingPieceError"] > 0
    assert ends["write: WorkingSetError"] > 0
