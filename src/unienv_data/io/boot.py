"""Which boot of which machine this is: what unsynced files may be trusted by."""

from __future__ import annotations

import functools
import hashlib
import os
import socket
import time
from pathlib import Path

__all__ = ["boot_id", "boot_number", "host_name", "process_start", "process_start_time"]


@functools.lru_cache(maxsize=1)
def boot_id() -> str:
    """Identity of the running system; another after every restart.

    Where the kernel gives none, the start time of process 1 stands in for it, and where there
    is none of that either, the host alone: then a restart goes unnoticed.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        started = process_start(1)
        text = f"{socket.gethostname()}:{started}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def boot_number() -> int:
    """63 bits of `boot_id`, for mapped headers."""
    return int.from_bytes(hashlib.sha256(boot_id().encode()).digest()[:8], "little") >> 1


def host_name() -> str:
    """Name of this machine, for messages."""
    return socket.gethostname()


def process_start(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, None when it is gone or unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the command in parentheses and may hold spaces; the 22nd is the start.
    fields = text.rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else None


def process_start_time(pid: int) -> str | None:
    """Start time of a process as UTC text, None when it is gone or unknown."""
    ticks = process_start(pid)
    try:
        uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None
    if ticks is None:
        return None
    seconds = time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
