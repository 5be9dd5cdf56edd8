"""Which file system a path is on, and whether its locks reach every machine that mounts it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Mount", "mount_of", "why_locks_are_local"]

_MOUNTS = Path("/proc/self/mountinfo")

# Locks of these stay in the kernel of one machine; another machine does not see them.
_LOCAL_LOCKS = {
    "fuse.blobfuse",
    "fuse.blobfuse2",
    "fuse.gcsfuse",
    "fuse.goofys",
    "fuse.mountpoint-s3",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
}
# File system -> mount options with which its locks are not sent to the server.
_LOCAL_OPTIONS = {
    "nfs": {"nolock", "local_lock=all", "local_lock=posix"},
    "nfs4": {"nolock", "local_lock=all", "local_lock=posix"},
    "cifs": {"nobrl"},
    "smb3": {"nobrl"},
    "lustre": {"localflock"},
}


class Mount(NamedTuple):
    """One line of the table of mounts."""

    point: str
    kind: str
    """Name of the file system, with its program for those in user space: `fuse.sshfs`."""
    options: frozenset[str]


def mount_of(path: Path) -> Mount | None:
    """The mount that a path is on; None where the system does not tell."""
    try:
        table = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    place = os.path.realpath(path)
    found: Mount | None = None
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if len(before) < 6 or len(after) < 2:
            continue
        point = before[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        # A later line hides an earlier one at the same point.
        if inside and (found is None or len(point) >= len(found.point)):
            options = [*before[5].split(","), *(after[2].split(",") if len(after) > 2 else [])]
            found = Mount(point, after[0], frozenset(options))
    return found


def why_locks_are_local(mount: Mount | None) -> str | None:
    """Says why a lock there would not be seen by other machines, None where it would."""
    if mount is None:
        return None
    if mount.kind in _LOCAL_LOCKS:
        return f"{mount.kind} at {mount.point} does not share locks between machines"
    local = _LOCAL_OPTIONS.get(mount.kind, set()) & mount.options
    if local:
        option = ", ".join(sorted(local))
        return f"{mount.kind} at {mount.point} is mounted with {option}: its locks stay local"
    return None
