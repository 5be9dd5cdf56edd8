"""Kills, failures and records at chosen system calls: the Python side of `_shim.c`.

The shim must be there when a process starts, so a whole Python program is run under it
(`run_preloaded`). That program makes one `Shim`, forks a child a trial, and the child arms the
shim. The plan lies in memory shared by both, so the parent knows how far a killed child came.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

__all__ = ["ERRORS", "KINDS", "MODES", "Shim", "build_shim", "run_preloaded", "why_unavailable"]

MODES = ("off", "count", "kill_before", "kill_after", "fail", "fail_from")

KINDS = (
    "open", "write", "allocate", "truncate", "map", "punch", "msync", "sync", "sync_all",
    "rename", "link", "unlink", "rmdir", "mkdir", "copy", "symlink",
)  # fmt: skip
"""Kinds of calls, by the shim's numbers."""

ERRORS = {name: getattr(errno, name) for name in ("ENOSPC", "EIO", "EDQUOT", "EROFS")}

_VARIABLE = "UNIENV_DATA_SHIM"
_WORDS = 8
_MODE, _NTH, _CODE, _MASK, _PARTIAL, _TRACE, _COUNT, _FIRED = range(_WORDS)
_EXTRA = 8  # words of ours behind the plan

_shared: list[mmap.mmap] = []  # the shim reads its plan until the process ends


def why_unavailable() -> str | None:
    """Why system calls cannot be interposed here, None when they can."""
    if not sys.platform.startswith("linux"):
        return "interposing system calls is only done on Linux"
    if _compiler() is None:
        return "there is no C compiler (cc, gcc or clang) to build the shim with"
    return None


def _compiler() -> str | None:
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


def build_shim(directory: Path) -> Path:
    """Compiles the shim into a directory, unless this version of it is there already.

    Raises:
        RuntimeError: It cannot be compiled; names the compiler's message.
    """
    source = resources.files("unienv_data.testing").joinpath("_shim.c").read_bytes()
    target = directory / f"unienv-shim-{hashlib.sha256(source).hexdigest()[:16]}.so"
    if target.exists():
        return target
    compiler = _compiler()
    if compiler is None:
        raise RuntimeError(f"build the shim: {why_unavailable()}")
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        text, built = Path(scratch, "shim.c"), Path(scratch, "shim.so")
        text.write_bytes(source)
        flags = ["-shared", "-fPIC", "-O1", "-o", str(built), str(text), "-ldl", "-lpthread"]
        done = subprocess.run([compiler, *flags], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{compiler} does not build the shim: {done.stderr}")
        os.replace(built, target)
    return target


def run_preloaded(
    arguments: Sequence[str], directory: Path, *, prefix: Sequence[str] = (), timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Runs ``python *arguments`` under the shim.

    Args:
        arguments: What follows the interpreter.
        directory: Where the shim is built.
        prefix: Command to run it with, such as a tracer.
        timeout_s: Kills it after this many seconds.
    """
    library = str(build_shim(directory))
    environment = {**os.environ, "LD_PRELOAD": library, _VARIABLE: library}
    command = [*prefix, sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )


class Shim:
    """The plan of the shim that this process was started under.

    Owns memory shared with the children forked from now on. `words` are eight 64-bit words for
    the caller's own messages from child to parent.
    """

    def __init__(self) -> None:
        """Finds the shim.

        Raises:
            RuntimeError: The process was not started by `run_preloaded`.
        """
        path = os.environ.get(_VARIABLE)
        if path is None:
            raise RuntimeError("the process runs without the shim; start it with run_preloaded")
        self._library = ctypes.CDLL(path)
        self._library.unienv_faults_share.argtypes = [ctypes.c_void_p]
        self._library.unienv_faults_size.restype = ctypes.c_long
        size = self._library.unienv_faults_size()
        self._memory = mmap.mmap(-1, size + 8 * _EXTRA)
        self._plan = memoryview(self._memory)[: 8 * _WORDS].cast("q")
        self.words = memoryview(self._memory)[size : size + 8 * _EXTRA].cast("q")
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.disarm()
        self._library.unienv_faults_share(address)
        _shared.append(self._memory)

    def arm(
        self,
        mode: str,
        root: Path,
        *,
        nth: int = 0,
        code: int = 0,
        kinds: Sequence[str] = (),
        partial: bool = False,
        trace: int = -1,
    ) -> None:
        """Watches calls below a directory from now on.

        Args:
            mode: One of `MODES`.
            root: The directory; resolved, since the kernel names files by their real paths.
            nth: Number of the call to kill at or to fail, from 1.
            code: errno of a failure.
            kinds: Kinds that are counted; all when empty.
            partial: Whether a failing write is cut short instead, as on a disk that fills up.
            trace: Descriptor to record calls to.
        """
        self.disarm()
        name = os.fsencode(root.resolve()) + b"\0"
        self._memory[8 * _WORDS : 8 * _WORDS + len(name)] = name
        self._plan[_NTH], self._plan[_CODE], self._plan[_PARTIAL] = nth, code, int(partial)
        self._plan[_MASK] = sum(1 << KINDS.index(kind) for kind in kinds)
        self._plan[_TRACE], self._plan[_COUNT], self._plan[_FIRED] = trace, 0, -1
        self._plan[_MODE] = MODES.index(mode)

    def disarm(self) -> None:
        """Lets every call pass; counts stay."""
        self._plan[_MODE] = 0
        self._plan[_TRACE] = -1

    @property
    def count(self) -> int:
        """Calls seen since `arm`."""
        return self._plan[_COUNT]

    @property
    def fired(self) -> str | None:
        """Kind of the call that was acted on, None when it was not reached."""
        kind = self._plan[_FIRED]
        return None if kind < 0 else KINDS[kind]

    def fork(self, work: Callable[[], Any]) -> int:
        """Runs `work` in a child and gives back its wait status; its result is its exit code."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            code = 70
            try:
                code = int(work() or 0)
            except BaseException:  # noqa: BLE001 - told to the parent by the exit code
                self.disarm()
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(code)
        return os.waitpid(child, 0)[1]
