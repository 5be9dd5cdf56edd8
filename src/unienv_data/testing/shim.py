"""The fault shim: compiles `_shim.c`, starts processes under it, and drives it from inside.

It is a library that LD_PRELOAD puts before the C library, so it sees the calls of Python, numpy
and Arrow alike. Linux, and a C compiler, are needed.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import Self

__all__ = ["FAILURES", "Fault", "Outcome", "Shim", "ShimmedForks", "why_unavailable"]

SOURCE = Path(__file__).with_name("_shim.c")
FAILURES = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS)
"""Errors that a full or failing disk answers with."""

_MODES = {"count": 0, "before": 1, "after": 2, "torn": 3, "fail": 4, "short": 5}


def why_unavailable() -> str | None:
    """Why the shim cannot be used here, or None when it can."""
    if not sys.platform.startswith("linux"):
        return "the fault shim needs Linux"
    return None if _compiler() else "the fault shim needs a C compiler (cc)"


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CC", "cc"))


def compile_shim(directory: Path) -> Path:
    """Compiles the shim into a directory and gives the library's path."""
    target = directory / "fault_shim.so"
    command = [_compiler() or "cc", "-O1", "-shared", "-fPIC", "-o", str(target), str(SOURCE)]
    subprocess.run([*command, "-ldl"], check=True, capture_output=True, text=True)
    return target


@dataclass(frozen=True)
class Fault:
    """What happens at one counted call.

    Kinds: ``count`` nothing; ``before`` and ``after`` the call, and ``torn`` in the middle of what
    it writes, the process is killed; ``fail`` the call answers with `code`; ``short`` it writes
    half and the next one fails.
    """

    kind: str = "count"
    at: int = 0
    """Number of the call, from 1."""
    code: int = 0
    """The errno of a failure."""
    keeps: bool = False
    """Whether every later call fails as well."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    was_killed: bool
    calls: int | None
    """Counted calls, when the process lived to tell."""
    result: Any
    """What the function returned, or the text of its error under the key ``error``."""
    acknowledged: list[Any]
    """What it said through `Shim.say`, in order."""


class Shim:
    """The shim as the process under it sees it."""

    def __init__(self, channel: int) -> None:
        self._library = ctypes.CDLL(None)
        self._library.shim_disarm.restype = ctypes.c_long
        self._library.shim_failed.restype = ctypes.c_long
        self._channel = channel

    def arm(self, directory: str, fault: Fault, trace: int = -1) -> None:
        """Watches a directory from now on.

        Args:
            directory: Absolute path; what lies below it counts.
            fault: What happens at which call.
            trace: Open file to write every call down to, -1 for none.
        """
        self._library.shim_arm(
            directory.encode(),
            _MODES[fault.kind],
            ctypes.c_long(fault.at),
            fault.code,
            int(fault.keeps),
            trace,
        )

    def disarm(self) -> int:
        """Stops watching, and gives the number of calls counted."""
        return int(self._library.shim_disarm())

    @property
    def failed(self) -> int:
        """Calls that were made to fail since it was armed."""
        return int(self._library.shim_failed())

    def say(self, message: Any) -> None:
        """Tells the parent something that outlives a kill."""
        os.write(self._channel, json.dumps(message).encode() + b"\n")


class ShimmedForks:
    """A process under the shim that forks a child for every run: imports are paid for once.

    A run names a function ``f(shim, **arguments)`` of an importable module.
    """

    def __init__(self, directory: Path) -> None:
        """Starts the process.

        Args:
            directory: Where the library and the runs' messages are kept; not one that is watched.
        """
        self._said = directory / "said"
        environment = {
            **os.environ,
            "LD_PRELOAD": str(compile_shim(directory)),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "unienv_data.testing.shim", str(self._said)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def run(self, function: str, **arguments: Any) -> Outcome:
        """Runs ``module:function`` in a forked child and waits for its end."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process was started without pipes")
        request = json.dumps({"function": function, "arguments": arguments})
        process.stdin.write(request.encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the process under the shim ended")
        status = json.loads(line)
        said = [json.loads(text) for text in self._said.read_bytes().split(b"\n")[:-1]]
        final = said.pop() if said and isinstance(said[-1], dict) and "calls" in said[-1] else {}
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(f"{function}({arguments}) ended with {code}")
        return Outcome(code != 0, final.get("calls"), final.get("result"), said)

    def close(self) -> None:
        """Ends the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(said: str) -> None:
    """The process under the shim: forks for each request."""
    modules: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        module, _, name = request["function"].partition(":")
        if module not in modules:
            modules[module] = __import__(module, fromlist=[name])
        function = getattr(modules[module], name)
        channel = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        child = os.fork()
        if child == 0:
            _run(function, request["arguments"], Shim(channel))
        os.close(channel)
        print(os.waitpid(child, 0)[1], flush=True)  # noqa: T201 - the answer


def _run(function: Any, arguments: dict[str, Any], shim: Shim) -> None:
    code = 1
    try:
        try:
            result = function(shim, **arguments)
        except Exception as error:  # noqa: BLE001 - told to the parent
            result = {"error": f"{type(error).__name__}: {error}"}
        shim.say({"calls": shim.disarm(), "result": result})
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
