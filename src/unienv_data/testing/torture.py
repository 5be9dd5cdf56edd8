"""The long forms: every kill point, every failing call, then kills at random instants.

``python -m unienv_data.testing.torture SECONDS``, where SECONDS is for the random kills.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from unienv_data.testing import failing, kill_points
from unienv_data.testing.faults import why_unavailable

_LONG_S = 6 * 3600.0


def main() -> None:
    """Runs all of it and prints what was found."""
    seconds = sys.argv[1] if len(sys.argv) > 1 else "3600"
    faults: list[str] = []
    reason = why_unavailable()
    if reason is not None:
        print(f"system calls: skipped, {reason}")  # noqa: T201 - a command
    else:
        with tempfile.TemporaryDirectory(prefix="unienv-torture-") as name:
            killed = kill_points.report(Path(name), "1", "10", timeout_s=_LONG_S)
            failed = failing.report(Path(name), "1", timeout_s=_LONG_S)
        faults = [*killed["faults"], *failed["faults"]]
        print(  # noqa: T201 - a command
            f"{killed['kills']} kills at system calls, {killed['recoveries']} of them in recovery; "
            f"{failed['calls']} failed calls; {len(faults)} faults",
            *faults,
            sep="\n",
        )
    command = [sys.executable, "-m", "unienv_data.testing.crash", seconds]
    done = subprocess.run(command, check=False)
    raise SystemExit(bool(faults) or done.returncode)


if __name__ == "__main__":
    main()
