"""What a reader sees of a directory that others change, one step at a time."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.bank import bank as bank_module
from unienv_data.errors import CommitConflictError, CorruptPieceError, MissingPieceError
from unienv_data.format.decode import decode
from unienv_data.format.layout import MANIFEST_NAME, piece_path
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages import _cache, _pieces
from unienv_data.storages._committer import Committer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.soak import SPACE, check_rows, rows_of_call
from unienv_interface.backends.numpy import NumpyComputeBackend as B

PIECE = 4


def rows(start: int, stop: int, call: int) -> dict[str, Any]:
    return rows_of_call(np.arange(start, stop), call)


def grow(storage: ParquetStorage, count: int, call: int) -> None:
    start = len(storage)
    storage.extend_length(count)
    storage.set(slice(start, start + count), rows(start, start + count, call))
    storage.flush()


def make(path: Path, count: int, **options: Any) -> ParquetStorage:
    storage = ParquetStorage.create(SPACE, cache_path=path, piece_size=PIECE, **options)
    if count:
        grow(storage, count, 1)
    return storage


def opened(path: Path, **options: Any) -> ParquetStorage:
    return ParquetStorage.load_from(path, SPACE, **options)


def calls(storage: ParquetStorage, index: slice = slice(None)) -> list[int]:
    where = np.arange(len(storage))[index]
    found: list[int] = check_rows(where, storage.get(where)).tolist()
    return found


# -- shortened storages ----------------------------------------------------------------------


@pytest.mark.parametrize("left", [8, 7, 0])
def test_pieces_that_a_shrink_removed_are_no_damage(tmp_path: Path, left: int) -> None:
    storage = make(tmp_path / "s", 12)
    reader = opened(tmp_path / "s")
    storage.shrink_length(12 - left)
    with pytest.raises(CommitConflictError, match="refresh"):
        reader.get(11)
    assert reader.refresh() == left
    assert calls(reader) == [1] * left
    storage.close()
    # A piece that is missing for no such reason is named as before.
    if left:
        (tmp_path / "s" / "part-000000.parquet").unlink()
        with opened(tmp_path / "s") as late, pytest.raises(MissingPieceError):
            late.get(0)
    reader.close()


@pytest.mark.parametrize("again", ["same writer", "next writer", "killed writer"])
def test_rows_that_came_after_a_shrink_are_not_those_before(tmp_path: Path, again: str) -> None:
    storage = make(tmp_path / "s", 12)
    reader = opened(tmp_path / "s")
    assert calls(reader, slice(0, 8)) == [1] * 8
    storage.shrink_length(8)
    if again == "next writer":
        storage.close()
        storage = opened(tmp_path / "s", read_only=False)
    elif again == "killed writer":
        storage._let_go(remove=False)
        storage = opened(tmp_path / "s", read_only=False)
    grow(storage, 20, 2)
    with pytest.raises(CommitConflictError, match="refresh"):
        reader.get(9)
    assert reader.refresh() == 24
    assert calls(reader) == [1] * 4 + [2] * 20
    # Growing goes on without disturbing anyone who came later.
    grow(storage, 6, 3)
    assert calls(reader) == [1] * 4 + [2] * 20
    storage.close()
    reader.close()


def test_a_rewritten_piece_is_known_as_such_after_a_kill(tmp_path: Path) -> None:
    storage = make(tmp_path / "s", 6)
    reader = opened(tmp_path / "s")
    storage.set(5, {name: value[0] for name, value in rows(5, 6, 2).items()})
    storage.flush()
    storage.extend_length(1)
    storage.set(slice(6, 7), rows(6, 7, 3))
    storage._let_go(remove=False)  # as a kill does
    storage = opened(tmp_path / "s", read_only=False)
    storage.close()  # seals the piece again, this time for its new row
    with pytest.raises(CommitConflictError):
        reader.get(5)
    reader.refresh()
    assert calls(reader) == [1, 1, 1, 1, 1, 2, 3]
    reader.close()


# -- files replaced while they are looked at -------------------------------------------------


def test_a_piece_replaced_between_a_look_and_its_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = make(tmp_path / "s", 8)
    cache = {"cache_dir": tmp_path / "cache"}
    reader = opened(tmp_path / "s", **cache)
    replaced: list[bool] = []

    def late(*arguments: Any) -> Any:
        if not replaced:
            replaced.append(True)
            storage.set(slice(0, 8), rows(0, 8, 2))
            storage.flush()
        return decode(*arguments)

    monkeypatch.setattr(_pieces, "decode", late)
    with pytest.raises(CommitConflictError):
        reader.get(0)
    # What it decoded is not taken for the file that it looked at first, by no one.
    with opened(tmp_path / "s", **cache) as other:
        assert calls(other) == [2] * 8
    reader.refresh()
    assert calls(reader) == [2] * 8
    reader.close()
    storage.close()


def test_versions_of_a_piece_differ_in_time(tmp_path: Path) -> None:
    """Also where the kernel's clock stands still for some milliseconds."""
    storage = make(tmp_path / "s", 1, durability="process")
    for call in range(2, 40):
        before = time.time_ns()
        storage.set(slice(0, 1), rows(0, 1, call))
        storage.flush()
        assert before <= (tmp_path / "s" / "part-000000.parquet").stat().st_mtime_ns
    storage.close()


def test_a_commit_that_is_finished_after_the_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = make(tmp_path / "s", 8)
    storage.set(slice(0, 8), rows(0, 8, 2))
    with monkeypatch.context() as patch:

        def stop(self: Committer, record: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(Committer, "_finish", stop)
        with pytest.raises(KeyboardInterrupt):
            storage.flush()
    storage._let_go(remove=False)
    with pytest.warns(ResourceWarning):
        reader = opened(tmp_path / "s")
    assert calls(reader, slice(0, 4)) == [2] * 4  # from the staged file
    Committer.recover(tmp_path / "s", syncs=False)  # what the next writer does first
    assert not list((tmp_path / "s").glob(".part-*"))
    assert calls(reader) == [2] * 8
    reader.close()


def test_the_number_of_a_commit_that_failed_half_way_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = make(tmp_path / "s", 8)
    storage.set(slice(0, 8), rows(0, 8, 2))
    with monkeypatch.context() as patch:

        def stop(self: Committer, record: Any) -> None:
            for name, piece in record.renames:
                os.replace(self.directory / name, piece_path(self.directory, piece))
            raise OSError(5, "Input/output error")

        patch.setattr(Committer, "_finish", stop)
        with pytest.raises(OSError, match="Input"):
            storage.flush()
    reader = opened(tmp_path / "s")
    assert calls(reader, slice(0, 4)) == [2] * 4
    storage.set(slice(4, 8), rows(4, 8, 3))
    storage.flush()
    with pytest.raises(CommitConflictError):
        reader.get(5)
    reader.refresh()
    assert calls(reader) == [2] * 4 + [3] * 4
    reader.close()
    storage.close()


def test_a_snapshot_is_copied_as_it_was_or_not_at_all(tmp_path: Path) -> None:
    storage = make(tmp_path / "s", 12)
    reader = opened(tmp_path / "s")
    storage.set(slice(8, 12), rows(8, 12, 2))
    storage.flush()
    with pytest.raises(CommitConflictError):
        reader.dumps(tmp_path / "copy")
    reader.refresh()
    reader.dumps(tmp_path / "copy")
    with opened(tmp_path / "copy") as copy:
        assert calls(copy) == [1] * 8 + [2] * 4
    reader.close()
    storage.close()


def test_a_dump_replaced_by_another(tmp_path: Path) -> None:
    storage = make(tmp_path / "s", 8)
    storage.dumps(tmp_path / "copy")
    reader = opened(tmp_path / "copy")
    assert calls(reader, slice(0, 4)) == [1] * 4
    storage.set(slice(0, 8), rows(0, 8, 2))
    storage.dumps(tmp_path / "copy")
    with pytest.raises(CommitConflictError):
        reader.get(7)
    reader.refresh()
    assert calls(reader) == [2] * 8
    with opened(tmp_path / "copy") as late:
        storage.shrink_length(4)
        storage.dumps(tmp_path / "copy")
        with pytest.raises(CommitConflictError):
            late.get(7)
    assert reader.refresh() == 4
    storage.close()
    reader.close()


def test_a_directory_made_anew_with_other_pieces(tmp_path: Path) -> None:
    make(tmp_path / "s", 12).close()
    reader = opened(tmp_path / "s")
    assert calls(reader, slice(0, 4)) == [1] * 4
    for file in (tmp_path / "s").iterdir():
        file.unlink()
    (tmp_path / "s").rmdir()
    with ParquetStorage.create(SPACE, cache_path=tmp_path / "s", piece_size=3) as other:
        grow(other, 10, 2)
    with pytest.raises((CommitConflictError, CorruptPieceError)):
        reader.get(8)
    assert reader.refresh() == 10
    assert reader.piece_size == 3
    assert calls(reader) == [2] * 10
    reader.close()


def test_a_directory_of_another_program_that_we_take_over(tmp_path: Path) -> None:
    make(tmp_path / "s", 8).close()
    path = tmp_path / "s" / MANIFEST_NAME
    known = ("piece_size", "num_rows", "column_shapes", "compression", "column_dtypes")
    manifest = json.loads(path.read_bytes())
    path.write_text(json.dumps({name: manifest[name] for name in known}))
    reader = opened(tmp_path / "s")
    assert calls(reader, slice(0, 4)) == [1] * 4
    with opened(tmp_path / "s", read_only=False) as storage:
        storage.set(slice(0, 8), rows(0, 8, 2))
    with pytest.raises(CommitConflictError):
        reader.get(7)
    reader.refresh()
    assert calls(reader) == [2] * 8
    reader.close()


# -- the bank that readers share -------------------------------------------------------------


def test_a_page_of_two_pieces_is_kept_while_another_process_fills_one(tmp_path: Path) -> None:
    make(tmp_path / "s", 40).close()
    reader = opened(tmp_path / "s", cache_dir=tmp_path / "cache")
    assert calls(reader) == [1] * 40
    bank = reader._bank
    wide = bank.columns[[column.column.name for column in bank.columns].index("wide")]
    for piece in range(2, 10):
        with bank.locks.mutex, bank.locks.piece(piece):
            bank._empty(piece)
    ready, go, done = os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with bank.locks.piece(1):  # as a process that has stored rows and not said so yet
            bank.present[1] = 0
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            bank.present[1] = 1
        os.write(done[1], b"x")
        os._exit(0)
    assert os.read(ready[0], 1) == b"x"
    with bank.locks.mutex, bank.locks.piece(0):
        bank._empty(0)
    os.write(go[1], b"x")
    assert os.read(done[0], 1) == b"x"
    os.waitpid(child, 0)
    for end in (*ready, *go, *done):
        os.close(end)
    assert wide.array[4:8].all()
    assert calls(reader) == [1] * 40
    # Once nobody fills a neighbour the page does go.
    for piece in range(10):
        with bank.locks.mutex, bank.locks.piece(piece):
            bank._empty(piece)
    assert not wide.array[:30].any()
    reader.close()


def test_a_reader_that_others_never_let_finish_reads_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "s", 10).close()
    monkeypatch.setattr(bank_module, "_GATHER_ATTEMPTS", 0)
    with opened(tmp_path / "s") as reader:
        assert calls(reader) == [1] * 10
        one = reader.get(6)
        assert (one["row"], one["text"]) == (6, "row 6 of call 1")
        assert one["wide"].shape == (17,)
        part = reader.get(slice(3, 9))
        assert check_rows(np.arange(3, 9), part).tolist() == [1] * 6
        again = reader.get([9, 0, 9])
        assert again["row"].tolist() == [9, 0, 9]
        assert reader.get_column("text").get(2) == "row 2 of call 1"
        assert reader._bank.faults == 0


def test_an_older_snapshot_of_zeros_does_not_show_newer_rows(tmp_path: Path) -> None:
    cache = {"cache_dir": tmp_path / "cache"}
    storage = ParquetStorage.create(SPACE, cache_path=tmp_path / "s", piece_size=PIECE, capacity=9)
    older = opened(tmp_path / "s", **cache)
    storage.set(slice(0, 9), rows(0, 9, 1))
    storage.flush()
    newer = opened(tmp_path / "s", **cache)
    for _ in range(3):  # each takes the pieces from the other
        assert calls(newer) == [1] * 9
        assert not older.get(slice(2, 9))["wide"].any()
    for half in (storage, older, newer):
        half.close()


def test_the_last_user_deletes_a_cache_while_the_next_one_enters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir
    attempts = []

    def gone(path: Any, mode: int = 0o777) -> None:
        attempts.append(path)
        if len(attempts) == 1:
            raise FileExistsError(17, "it was there a moment ago", str(path))
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", gone)
    directory, users = _cache._enter(tmp_path / "bank")
    assert (directory / "users").exists()
    assert len(attempts) == 2
    os.close(users)


# -- permissions -----------------------------------------------------------------------------


def snapshot_of(path: Path) -> dict[str, tuple[int, int, int]]:
    found = {}
    for file in [path, *sorted(path.rglob("*"))]:
        status = file.stat()
        found[str(file)] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


@pytest.mark.parametrize("writer_is", ["gone", "there", "dead"])
def test_readers_leave_nothing_in_the_data_set_and_need_no_permission(
    tmp_path: Path, writer_is: str
) -> None:
    path = tmp_path / "data"
    storage = make(path, 10)
    if writer_is == "gone":
        storage.close()
    elif writer_is == "dead":
        storage.set(slice(0, 1), rows(0, 1, 2))
        storage._let_go(remove=False)
    for place in [*path.rglob("*"), path]:
        place.chmod(0o555 if place.is_dir() else 0o444)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    before = snapshot_of(path)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            import warnings

            warnings.simplefilter("ignore")
            for options in ({}, {"cache_dir": tmp_path / "cache" / "mine"}):
                with opened(path, **options) as reader:
                    assert calls(reader) == [1] * 10
                    assert reader.refresh() == 10
                    assert reader.get_column("text").get(3) == "row 3 of call 1"
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert snapshot_of(path) == before
    for place in [path, *path.rglob("*")]:
        place.chmod(0o755 if place.is_dir() else 0o644)
    if writer_is == "there":
        storage.close()


# -- buffers ---------------------------------------------------------------------------------


def test_segments_of_rows_that_were_cleared_are_not_read_into_new_rows(tmp_path: Path) -> None:
    path = tmp_path / "b"
    buffer: Any = ReplayBuffer.create(
        ParquetStorage, SPACE, cache_path=path, piece_size=PIECE, maintain_segment_metadata=True
    )
    for start in (0, 5):
        buffer.extend(rows(start, start + 5, 1))
    buffer.flush()
    before = (path / "metadata.json").read_bytes()
    reader: Any = ReplayBuffer.load_from(path, backend=B)
    assert reader.get_segments() == [(0, 5), (5, 10)]
    buffer.clear()
    buffer.extend(rows(0, 8, 2))
    buffer.flush()
    after = (path / "metadata.json").read_bytes()
    # A reader that catches the file of before the clear, and the rows of after it.
    (path / "metadata.json").write_bytes(before)
    assert reader.refresh() == 8
    assert reader.get_segments() == []
    assert check_rows(np.arange(8), reader.get_at(slice(0, 8))).tolist() == [2] * 8
    late: Any = ReplayBuffer.load_from(path, backend=B)
    assert late.get_segments() == []
    (path / "metadata.json").write_bytes(after)
    reader.refresh()
    assert reader.get_segments() == [(0, 8)]
    for half in (reader, late, buffer):
        half.close()
    # The writer that comes next knows them from the file.
    again: Any = ReplayBuffer.load_from(path, backend=B, read_only=False)
    assert again.get_segments() == [(0, 8)]
    again.close()
