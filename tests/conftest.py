"""Shared fixtures: a virtual environment with the original library in it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

UPSTREAM = "unienv==0.0.1b16"
ROOT = Path(__file__).parent.parent

settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def upstream_python() -> Path:
    """Python of an environment with the original release, made on first use.

    It needs one of its own, since it installs the same import names.
    """
    home = ROOT / ".venv-upstream"
    python = home / "bin" / "python"
    ready = home / ".ready"
    # Several test processes may want it at once: the first makes it, the others wait.
    lock = Path(tempfile.gettempdir()) / f"unienv-upstream-{os.getuid()}.lock"
    with lock.open("w") as held:
        import fcntl

        fcntl.flock(held, fcntl.LOCK_EX)
        if not ready.exists():
            venv.create(home, with_pip=True, clear=True)
            environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
            subprocess.run(
                [python, "-m", "pip", "install", "-q", "--pre", UPSTREAM, "pyarrow>=17"],
                check=True,
                env=environment,
                stdout=sys.stderr,
            )
            ready.touch()
    return python
