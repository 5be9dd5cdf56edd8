from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from unienv_data.errors import StorageSpaceError
from unienv_data.io.mapped import PAGE, MappedFile, can_punch


def test_holes_read_as_zeros_and_take_no_space(tmp_path: Path) -> None:
    file = MappedFile(tmp_path / "f", 1 << 30, create=True)
    array = file.array(np.dtype("int64"), (1 << 20,))
    assert not array[:100].any()
    assert os.stat(tmp_path / "f").st_blocks == 0
    del array
    file.close()


def test_growing_keeps_old_views_valid(tmp_path: Path) -> None:
    file = MappedFile(tmp_path / "f", PAGE, create=True)
    before = file.array(np.dtype("uint8"), (PAGE,))
    file.allocate(0, 4 * PAGE)
    assert file.reserve(4 * PAGE)
    assert not file.reserve(PAGE)
    after = file.array(np.dtype("uint8"), (4 * PAGE,))
    after[5] = 7
    assert before[5] == 7
    file.write(6, b"\x09")
    assert before[6] == 9
    file.close()
    assert before[5] == 7


def test_what_is_stored_is_in_the_file_at_once(tmp_path: Path) -> None:
    file = MappedFile(tmp_path / "f", PAGE, create=True)
    file.allocate(0, PAGE)
    words = file.words()
    words[3] = -5
    assert int.from_bytes((tmp_path / "f").read_bytes()[24:32], "little", signed=True) == -5
    words.release()
    file.close()


@pytest.mark.skipif(not can_punch(), reason="this system cannot punch holes")
def test_punch_gives_whole_pages_back_and_leaves_the_rest(tmp_path: Path) -> None:
    file = MappedFile(tmp_path / "f", 8 * PAGE, create=True)
    file.write(0, np.full(8 * PAGE, 1, np.uint8))
    before = os.stat(tmp_path / "f").st_blocks
    file.punch(10, 4 * PAGE)  # covers pages 1 to 3 as a whole
    data = file.array(np.dtype("uint8"), (8 * PAGE,))
    assert data[:PAGE].all()
    assert not data[PAGE : 4 * PAGE].any()
    assert data[4 * PAGE :].all()
    assert os.stat(tmp_path / "f").st_blocks <= before - 3 * PAGE // 512
    del data
    file.close()


def test_a_full_disk_is_an_error_that_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = MappedFile(tmp_path / "f", PAGE, create=True)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageSpaceError, match="free disk space") as caught:
        file.allocate(0, PAGE)
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == errno.ENOSPC
    file.close()


def test_a_missing_file_is_only_made_when_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MappedFile(tmp_path / "f", PAGE, create=False)


def test_a_size_that_no_file_has_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageSpaceError, match="more than a file can have"):
        MappedFile(tmp_path / "f", 1 << 63, create=True)
