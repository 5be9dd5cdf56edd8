"""A writer is killed, or its calls fail, at system calls in turn. `make torture` takes all."""

from __future__ import annotations

from pathlib import Path

import pytest

from unienv_data.testing import failing, kill_points
from unienv_data.testing.faults import why_unavailable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable())),
]


def test_killed_at_system_calls(tmp_path: Path) -> None:
    found = kill_points.report(tmp_path, "5", "60")
    assert found["faults"] == []
    assert found["kills"] >= 400
    assert found["recoveries"] >= 50
    # Every kind of call was killed at, so the shim sees them.
    kinds = {"open", "write", "allocate", "truncate", "map", "sync", "rename", "unlink", "mkdir"}
    assert kinds <= set(found["by_kind"])


def test_failing_system_calls(tmp_path: Path) -> None:
    found = failing.report(tmp_path, "5")
    assert found["faults"] == []
    assert found["calls"] >= 200
    assert found["raised"] >= 100
