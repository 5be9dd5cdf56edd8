from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from unienv_data.errors import LockUnavailableError, StorageLockedError
from unienv_data.io import lock as lock_module
from unienv_data.io import mounts
from unienv_data.io.boot import boot_id, host_name, process_start, process_start_time
from unienv_data.io.lock import WriterLock, writer_is_alive
from unienv_data.io.mounts import mount_of, why_locks_are_local

HOLD = """
import sys, time
from pathlib import Path
from unienv_data.io.lock import WriterLock
lock = WriterLock(Path(sys.argv[1]), "test")
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "_work").mkdir()
    return tmp_path / "_work" / "lock"


def test_a_second_writer_in_this_process_is_refused_and_the_first_keeps_its_lock(
    path: Path,
) -> None:
    lock = WriterLock(path, "test")
    for _ in range(2):
        with pytest.raises(StorageLockedError, match=f"process {os.getpid()}"):
            WriterLock(path, "test")
    assert writer_is_alive(path)
    lock.release()
    lock.release()
    assert not writer_is_alive(path)
    WriterLock(path, "test").release(remove=True)
    assert not path.exists()


def test_another_process_is_named_and_its_death_frees_the_lock(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert writer_is_alive(path)
        with pytest.raises(StorageLockedError) as caught:
            WriterLock(path, "test")
        assert caught.value.facts["pid"] == holder.pid
        assert caught.value.facts["host"] == os.uname().nodename
        started = process_start_time(holder.pid)
        assert caught.value.facts["started"] is not None
        assert str(started)[:16] == str(caught.value.facts["started"])[:16]  # to the minute
        assert f"process {holder.pid} on {os.uname().nodename} (started 2" in str(caught.value)
        holder.send_signal(signal.SIGKILL)
    assert not writer_is_alive(path)
    WriterLock(path, "test").release()


def test_a_forked_child_does_not_hold_its_parents_lock(path: Path) -> None:
    lock = WriterLock(path, "test")
    child = os.fork()
    if child == 0:
        try:
            refused = False
            try:
                WriterLock(path, "test")
            except StorageLockedError:
                refused = True
            lock.release()  # must not touch the parent's
            os._exit(0 if refused else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert writer_is_alive(path)
    with pytest.raises(StorageLockedError):
        WriterLock(path, "test")
    # The child is gone, the parent holds on; another process is still refused.
    probe = subprocess.run(
        [sys.executable, "-c", HOLD, str(path)], capture_output=True, timeout=30, check=False
    )
    assert probe.returncode == 1
    assert b"StorageLockedError" in probe.stderr
    lock.release()


def test_a_lock_file_removed_while_it_is_waited_for_is_not_taken(path: Path) -> None:
    lock = WriterLock(path, "test")
    lock.release(remove=True)
    again = WriterLock(path, "test")
    assert path.exists()
    assert again.path.stat().st_ino == path.stat().st_ino
    again.release(remove=True)
    time.sleep(0)
    assert not path.exists()


def is_refused_elsewhere(path: Path) -> bool:
    probe = subprocess.run(
        [sys.executable, "-c", HOLD.replace("time.sleep(60)", ""), str(path)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    return probe.returncode == 1 and b"StorageLockedError" in probe.stderr


@pytest.mark.skipif(lock_module._OFD_SET is None, reason="POSIX locks die with any descriptor")
def test_reading_the_lock_file_in_the_writing_process_does_not_drop_the_lock(path: Path) -> None:
    lock = WriterLock(path, "test")
    shutil.copytree(path.parent, path.parent.parent / "copy")  # opens and closes the file
    path.read_bytes()
    assert writer_is_alive(path)
    assert is_refused_elsewhere(path)
    lock.release()
    assert not is_refused_elsewhere(path)


def test_asking_whether_a_writer_lives_never_disturbs_one_that_opens(path: Path) -> None:
    path.touch()
    stop = threading.Event()
    asked = [0]

    def ask() -> None:
        while not stop.is_set():
            writer_is_alive(path)
            asked[0] += 1

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for _ in range(200):
            lock = WriterLock(path, "test")
            assert writer_is_alive(path)
            lock.release()
    finally:
        stop.set()
        thread.join()
    assert asked[0] > 0


def test_of_many_threads_one_gets_the_lock(path: Path) -> None:
    barrier = threading.Barrier(8)
    locks: list[WriterLock] = []
    refused: list[StorageLockedError] = []

    def take() -> None:
        barrier.wait()
        try:
            locks.append(WriterLock(path, "test"))
        except StorageLockedError as error:
            refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(locks), len(refused)) == (1, 7)
    assert {error.facts["pid"] for error in refused} == {os.getpid()}
    locks[0].release()


@pytest.mark.parametrize("kind", ["live", "reused", "earlier boot", "other host", "no record"])
def test_a_record_without_a_lock_is_nobodys(path: Path, kind: str) -> None:
    record = {
        "pid": os.getppid(),
        "host": host_name(),
        "boot": boot_id(),
        "started": process_start(os.getppid()),
    }
    if kind == "reused":  # the number is in use again, by another process
        record |= {"started": 1}
    elif kind == "earlier boot":
        record |= {"boot": "0" * 32}
    elif kind == "other host":
        record |= {"boot": "1" * 32, "host": "elsewhere"}
    path.write_text("" if kind == "no record" else json.dumps(record))
    assert not writer_is_alive(path)
    lock = WriterLock(path, "test")
    assert json.loads(path.read_bytes())["pid"] == os.getpid()
    assert is_refused_elsewhere(path)
    lock.release()


def test_a_child_that_outlives_the_writer_does_not_keep_its_lock(path: Path) -> None:
    go, gone = os.pipe(), os.pipe()
    writer = os.fork()
    if writer == 0:
        WriterLock(path, "test")
        grandchild = os.fork()
        if grandchild == 0:
            os.close(go[1])
            os.write(gone[1], b"x")
            os.read(go[0], 1)  # until the test is over
            os._exit(0)
        os.waitpid(grandchild, 0)
    try:
        assert os.read(gone[0], 1) == b"x"
        assert writer_is_alive(path)
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        assert not writer_is_alive(path)
        WriterLock(path, "test").release()
    finally:
        for end in (*go, *gone):
            os.close(end)


def test_a_full_disk_takes_no_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="free disk space"):
            WriterLock(path, "test")
    assert not writer_is_alive(path)
    WriterLock(path, "test").release()


TABLE = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:40 / /data rw - nfs4 server:/data rw,vers=4.2,local_lock=none
31 22 0:41 / /old\\040data rw - nfs server:/old rw,nolock,local_lock=all
32 22 0:42 / /far rw - fuse.sshfs me@host:/ rw,user_id=0
33 22 0:43 / /smb rw - cifs //server/share rw,nobrl
34 30 0:44 / /data/inner rw shared:5 - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("place", "kind", "reason"),
    [
        ("/home/x", "ext4", None),
        ("/database", "ext4", None),
        ("/data/a/b", "nfs4", None),
        ("/data/inner/a", "tmpfs", None),
        ("/old data/a", "nfs", "local_lock=all, nolock"),
        ("/far", "fuse.sshfs", "does not share locks"),
        ("/smb/a", "cifs", "nobrl"),
    ],
)
def test_file_systems_whose_locks_stay_local_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, kind: str, reason: str | None
) -> None:
    (tmp_path / "mounts").write_text(TABLE)
    monkeypatch.setattr(mounts, "_MOUNTS", tmp_path / "mounts")
    mount = mount_of(Path(place))
    assert mount is not None
    assert mount.kind == kind
    found = why_locks_are_local(mount)
    assert found is None if reason is None else reason in str(found)


def test_they_are_refused_for_writing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = path.parent.parent / "mounts"
    table.write_text(f"1 0 0:1 / {path.parent.parent} rw - fuse.sshfs me@host:/ rw\n")
    monkeypatch.setattr(mounts, "_MOUNTS", table)
    with pytest.raises(LockUnavailableError, match=r"fuse\.sshfs"):
        WriterLock(path, "test")
    assert not path.exists()
    WriterLock(path, "dumps", any_file_system=True).release()


def test_a_file_system_without_locks_is_refused_by_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(lock_module, "_try_lock", none)
        with pytest.raises(LockUnavailableError, match="has no locks"):
            WriterLock(path, "test")
    assert len(os.listdir("/proc/self/fd")) == before


def test_without_locks_of_the_open_file_posix_ones_do(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "_OFD_SET", None)
    monkeypatch.setattr(lock_module, "_OFD_GET", None)
    lock = WriterLock(path, "test")
    assert writer_is_alive(path)
    with pytest.raises(StorageLockedError, match=f"process {os.getpid()}"):
        WriterLock(path, "test")
    assert is_refused_elsewhere(path)
    lock.release()
    assert not is_refused_elsewhere(path)
