from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from unienv_data.errors import StorageSpaceError
from unienv_data.io import atomic
from unienv_data.io.atomic import replace_file, sync_files, write_aside


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    replace_file(path, b"one", sync=True)
    replace_file(path, b"two", sync=False)
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_a_failure_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StorageSpaceError) as caught:
        replace_file(path, b"new", sync=True)
    assert caught.value.errno == code
    assert "repeat the call" in str(caught.value) or "remount" in str(caught.value)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_short_writes_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:3]))
    write_aside(tmp_path / "x", b"0123456789", sync=False)
    assert (tmp_path / "x").read_bytes() == b"0123456789"


@pytest.mark.parametrize("count", [2, 40])
def test_every_file_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    paths = [tmp_path / str(number) for number in range(count)]
    for path in paths:
        path.write_bytes(b"x")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    whole: list[Path] = []
    real = atomic._sync_file_system

    def remember(directory: Path) -> bool:
        done = real(directory)
        if done:
            whole.append(directory)
        return done

    monkeypatch.setattr(atomic, "_sync_file_system", remember)
    sync_files(tmp_path, paths)
    inodes = {path.stat().st_ino for path in paths}
    assert set(synced) == inodes or whole == [tmp_path]
