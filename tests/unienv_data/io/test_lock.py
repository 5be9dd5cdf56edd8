from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unienv_data.errors import StorageLockedError
from unienv_data.io.lock import WriterLock, writer_is_alive

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
            WriterLock(path, "test", attempts=2)
        assert caught.value.facts["pid"] == holder.pid
        assert caught.value.facts["host"] == os.uname().nodename
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
                WriterLock(path, "test", attempts=1)
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
