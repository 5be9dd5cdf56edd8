"""Storages in other processes, by every start method: they read, and never write for the parent."""

from __future__ import annotations

import gc
import multiprocessing as mp
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.errors import CommitConflictError, ForkedWriterError, StorageClosedError
from unienv_data.io.lock import WriterLock, writer_is_alive
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.soak import SPACE, check_rows, rows_of_call

METHODS = ["fork", "spawn", "forkserver"]
STARTS = 12  # of each method; 200 were measured by hand


def make(path: Path, count: int, **options: Any) -> ParquetStorage:
    storage = ParquetStorage.create(SPACE, cache_path=path, piece_size=16, **options)
    grow(storage, count, 1)
    return storage


def grow(storage: ParquetStorage, count: int, call: int) -> None:
    start = len(storage)
    storage.extend_length(count)
    rows = np.arange(start, start + count)
    storage.set(slice(start, start + count), rows_of_call(rows, call))


def in_child(action: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def read_all(storage: ParquetStorage, count: int, results: Any) -> None:
    rows = np.arange(count)
    results.put((os.getpid(), check_rows(rows, storage.get(rows)).tolist(), storage.is_mutable))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mode", ["reader", "writer"])
def test_children_of_every_start_method_read(tmp_path: Path, method: str, mode: str) -> None:
    context: Any = mp.get_context(method)
    writer = make(tmp_path / "s", 80, bank_bytes=20_000)
    writer.flush()
    reader = ParquetStorage.load_from(tmp_path / "s", SPACE)
    storage = reader if mode == "reader" else writer
    storage.get(...)  # the parent has read: banks, caches and locks are in use
    stop, turns = threading.Event(), threading.Semaphore(0)

    def write() -> None:
        while turns.acquire() and not stop.is_set():
            grow(writer, 7, 2)
            writer.flush()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(STARTS if method == "fork" else 3):
            for _ in range(20):  # the writer is busy while the child is made and reads
                turns.release()
            results = context.Queue()
            child = context.Process(target=read_all, args=(storage, 80, results))
            child.start()
            pid, calls, is_mutable = results.get(timeout=120)
            child.join(120)
            assert (child.exitcode, pid, is_mutable) == (0, child.pid, False)
            assert calls == [1] * 80
    finally:
        stop.set()
        turns.release()
        thread.join()
    total = len(writer)
    writer.close()
    reader.close()
    with ParquetStorage.load_from(tmp_path / "s", SPACE) as late:
        assert len(late) == total
        assert check_rows(np.arange(total), late.get(...))[80:].tolist() == [2] * (total - 80)


def test_a_child_never_fills_its_parents_bank(tmp_path: Path) -> None:
    """It read zeros of evicted pieces, and left them as the parent's rows."""
    writer = make(tmp_path / "s", 320, bank_bytes=30_000)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(ready[1], b"x")
            os.read(go[0], 1)  # meanwhile the parent seals these rows and evicts them
            for first in range(0, 320, 16):
                rows = np.arange(first, first + 16)
                assert check_rows(rows, writer.get(rows)).tolist() == [1] * 16
            one = writer.get(317)
            assert (one["row"], one["text"]) == (317, "row 317 of call 1")
            assert writer.get_column("text").get(slice(0, 2)).tolist() == [
                "row 0 of call 1",
                "row 1 of call 1",
            ]
            code = 0
        finally:
            os._exit(code)
    os.read(ready[0], 1)
    for _ in range(40):
        grow(writer, 64, 2)
    writer.flush()
    bank = writer._bank
    before = bank.present.copy()
    assert not before[:20].all()  # evicted, or the test would say nothing
    os.write(go[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (bank.present == before).all()
    rows = np.arange(320)
    assert check_rows(rows, writer.get(rows)).tolist() == [1] * 320
    writer.close()
    for end in (*ready, *go):
        os.close(end)


def test_a_child_sees_no_row_half_overwritten(tmp_path: Path) -> None:
    writer = make(tmp_path / "s", 48)
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            rows, seen = np.arange(48), set()
            os.set_blocking(done[0], False)
            os.write(ready[1], b"x")
            while True:
                # Of one call each: `set` is atomic to readers of its rows.
                calls = set(check_rows(rows, writer.get(rows)).tolist())
                assert len(calls) == 1, calls
                seen |= calls
                try:
                    os.read(done[0], 1)
                    break
                except BlockingIOError:
                    continue
            assert len(seen) > 1
            code = 0
        finally:
            os._exit(code)
    os.read(ready[0], 1)
    rows = np.arange(48)
    for call in range(2, 400):
        writer.set(rows, rows_of_call(rows, call))
    os.write(done[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.close()
    for end in (*ready, *done):
        os.close(end)


@pytest.mark.parametrize("how", ["append", "extend"])
def test_a_child_of_a_ring_sees_rows_in_order_while_the_parent_goes_round(
    tmp_path: Path, how: str
) -> None:
    buffer: Any = ReplayBuffer.create(
        ParquetStorage, SPACE, cache_path=tmp_path / "b", capacity=60, piece_size=16
    )
    buffer.extend(rows_of_call(np.arange(60), 1))
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.set_blocking(done[0], False)
            os.write(ready[1], b"x")
            seen, refused = set(), 0
            while True:
                try:
                    found = buffer.get_at(slice(20, 59))
                    first = int(found["row"][0])
                    check_rows(first + np.arange(39), found)
                    seen.add(first)
                except CommitConflictError:
                    refused += 1
                try:
                    os.read(done[0], 1)
                    break
                except BlockingIOError:
                    continue
            assert len(seen) > 1
            code = 0
        finally:
            os._exit(code)
    os.read(ready[0], 1)
    for turn in range(600):
        first = 60 + turn * 5
        batch = rows_of_call(np.arange(first, first + 5), 2)
        if how == "extend":
            buffer.extend(batch)
        else:
            for place in range(5):
                buffer.append({name: values[place] for name, values in batch.items()})
            buffer.mark_segment_end()
    os.write(done[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    buffer.close()
    for end in (*ready, *done):
        os.close(end)


def test_rows_that_the_parent_drops_are_refused(tmp_path: Path) -> None:
    writer = make(tmp_path / "s", 40)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            assert check_rows(np.arange(20), writer.get(slice(0, 20))).tolist() == [1] * 20
            with pytest.raises(CommitConflictError, match="dropped by the parent"):
                writer.get(slice(0, 21))
            code = 0
        finally:
            os._exit(code)
    os.read(ready[0], 1)
    writer.shrink_length(20)
    os.write(go[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.close()
    for end in (*ready, *go):
        os.close(end)


def test_a_child_reads_on_after_its_parent_has_closed(tmp_path: Path) -> None:
    writer = make(tmp_path / "s", 40)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            assert check_rows(np.arange(40), writer.get(...)).tolist() == [1] * 40
            writer.close()
            with pytest.raises(StorageClosedError):
                writer.get(0)
            code = 0
        finally:
            os._exit(code)
    os.read(ready[0], 1)
    writer.close()
    os.write(go[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for end in (*ready, *go):
        os.close(end)


def listing(path: Path) -> dict[str, tuple[int, int]]:
    return {
        str(file): (file.stat().st_ino, file.stat().st_size)
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


@pytest.mark.parametrize("how", ["close", "drop", "exit", "flush"])
def test_a_child_leaves_the_parents_files_and_lock_alone(tmp_path: Path, how: str) -> None:
    writer = make(tmp_path / "s", 21)
    writer.flush()
    writer.mark_segment_start(21)
    for row in range(21, 25):
        batch = rows_of_call(np.arange(row, row + 1), 2)
        writer.append({name: values[0] for name, values in batch.items()})
    before = listing(tmp_path / "s")
    holder: list[Any] = [writer]

    def child() -> None:
        nonlocal writer
        if how == "close":
            holder[0].close()
            holder[0].close()
        elif how == "drop":
            holder.clear()
            del writer
            gc.collect()
        elif how == "flush":
            with pytest.raises(ForkedWriterError):
                holder[0].flush()
            with pytest.raises(ForkedWriterError):
                holder[0].dumps(tmp_path / "s")

    if how == "exit":
        # By way of the interpreter's own end: finalisers and exit handlers run.
        code = (
            "import os, sys\n"
            "from unienv_data.storages.parquet import ParquetStorage as P\n"
            "from unienv_data.testing.soak import SPACE\n"
            "s = P.load_from(sys.argv[1], SPACE, read_only=False)\n"
            "s.extend_length(1); n = len(s)\n"
            "if os.fork() == 0:\n"
            "    sys.exit(0)\n"
            "code = os.waitstatus_to_exitcode(os.wait()[1])\n"
            "print(code, os.listdir(sys.argv[1] + '/_work'), n)\n"
            "s.close()\n"
        )
        writer.mark_segment_end()
        writer.close()
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code, str(tmp_path / "s")],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.stderr == ""
        assert done.stdout.startswith("0 [")
        assert "'lock'" in done.stdout
        assert "'bank'" in done.stdout
        return
    assert in_child(child) == 0
    assert listing(tmp_path / "s") == before
    assert writer_is_alive(tmp_path / "s" / "_work" / "lock")
    with pytest.raises(RuntimeError, match=f"process {os.getpid()}"):
        WriterLock(tmp_path / "s" / "_work" / "lock", "test")
    writer.mark_segment_end()
    writer.close()
    with ParquetStorage.load_from(tmp_path / "s", SPACE) as reader:
        assert check_rows(np.arange(25), reader.get(...)).tolist() == [1] * 21 + [2] * 4


def test_a_writer_may_follow_while_children_of_the_dead_one_live(tmp_path: Path) -> None:
    ready, go = os.pipe(), os.pipe()
    parent = os.fork()
    if parent == 0:
        storage = make(tmp_path / "s", 30)
        if os.fork() == 0:
            storage.get(0)
            os.write(ready[1], b"x")
            os.close(go[1])
            os.read(go[0], 1)  # until the test is over
            os._exit(0)
        signal.pause()
    assert os.read(ready[0], 1) == b"x"
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    storage = ParquetStorage.load_from(tmp_path / "s", SPACE, read_only=False)
    assert check_rows(np.arange(30), storage.get(...)).tolist() == [1] * 30
    storage.close()
    for end in (*ready, *go):
        os.close(end)


def test_reading_leaves_nothing_to_wait_for_at_exit(tmp_path: Path) -> None:
    make(tmp_path / "s", 200).close()
    code = (
        "import atexit, sys, threading\n"
        "import unienv_data.storages.parquet as p\n"
        "from unienv_data.testing.soak import SPACE\n"
        "import concurrent.futures\n"
        "registered = []\n"
        "atexit.register = lambda *a, **k: registered.append(a)\n"
        "s = p.ParquetStorage.load_from(sys.argv[1], SPACE)\n"
        "s.get(...); s.get([5, 3]); s.refresh()\n"
        "print(threading.active_count(), len(registered))\n"
        "s.close()\n"
        "w = p.ParquetStorage.load_from(sys.argv[1], SPACE, read_only=False)\n"
        "w.extend_length(64); w.set(slice(200, 264), w.get(slice(0, 64)))\n"
        "w.flush()\n"
        "alive = [t for t in threading.enumerate() if t is not threading.main_thread()]\n"
        "print(all(t.daemon for t in alive), len(registered))\n"
        "w.close()\n"
        "print(threading.active_count())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path / "s")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n") == ["1 0", "True 0", "1", ""]


class Rows:
    """A map-style data set over a storage."""

    def __init__(self, storage: ParquetStorage) -> None:
        self.storage = storage

    def __len__(self) -> int:
        return 80

    def __getitem__(self, row: int) -> tuple[int, int]:
        found = self.storage.get(row)
        calls = check_rows(np.array([row]), {name: [value] for name, value in found.items()}
                           | {"call": np.array([found["call"]])})  # fmt: skip
        return row, int(calls[0])


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mode", ["reader", "writer"])
def test_torch_data_loaders(tmp_path: Path, method: str, mode: str) -> None:
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    writer = make(tmp_path / "s", 80)
    writer.flush()
    reader = ParquetStorage.load_from(tmp_path / "s", SPACE)
    storage = reader if mode == "reader" else writer
    storage.get(...)
    loader = data.DataLoader(
        Rows(storage), batch_size=16, num_workers=2, multiprocessing_context=method, shuffle=True
    )
    for turn in range(2):
        seen = []
        for batch in loader:
            if mode == "reader":
                grow(writer, 3, 2)
            assert set(batch[1].tolist()) == {1}
            seen += batch[0].tolist()
        assert sorted(seen) == list(range(80)), turn
    writer.close()
    reader.close()
