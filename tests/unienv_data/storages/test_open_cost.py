"""Opening costs the same for ten pieces and for a hundred thousand, and re-encodes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_data.format.checked import sealed
from unienv_data.format.layout import MANIFEST_NAME, piece_path
from unienv_data.storages import _writer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.soak import SPACE, check_rows, rows_of_call

_MOST_LINKS = 60_000  # ext4 allows 65,000 names of one file

# Announces the part that is counted by looking for files that do not exist.
OPEN = """
import os, sys
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.soak import SPACE
ParquetStorage.load_from(sys.argv[1], SPACE).close()  # everything is imported
events = []
hook_on = False
def hook(name, arguments):
    if hook_on:
        events.append(name)
sys.addaudithook(hook)
os.path.exists("/count-from-here")
hook_on = True
storage = ParquetStorage.load_from(
    sys.argv[1], SPACE, read_only=sys.argv[2] == "read", bank_bytes=1 << 30
)
hook_on = False
os.path.exists("/count-to-here")
print(len(storage), *events)
storage._reader is None or storage.close()
storage._closed or storage._let_go(remove=True)
"""

# Calls for memory that is no file: numpy's arrays of one element a piece.
_MEMORY = {"brk", "munmap", "madvise", "mprotect"}


def with_pieces(path: Path, count: int) -> None:
    """A storage of `count` pieces of one row, each a name of the same few files."""
    with ParquetStorage.create(SPACE, cache_path=path, piece_size=1) as storage:
        storage.extend_length(1)
        storage.set(slice(0, 1), rows_of_call(np.arange(1), 1))
    manifest = json.loads((path / MANIFEST_NAME).read_bytes())
    manifest["num_rows"] = manifest["synced_rows"] = count
    (path / MANIFEST_NAME).write_text(json.dumps(sealed(manifest)))
    source = piece_path(path, 0)
    for piece in range(1, count):
        target = piece_path(path, piece)
        if piece % _MOST_LINKS == 0:
            shutil.copyfile(source, target)
            source = target
        else:
            os.link(source, target)


def counted(path: Path, mode: str, trace: Path | None) -> tuple[Counter[str], Counter[str]]:
    """What an open asks of Python and of the system."""
    command = [sys.executable, "-c", OPEN, str(path), mode]
    if trace is not None:
        command = ["strace", "-f", "-o", str(trace), *command]
    cache = path.parent / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    done = subprocess.run(
        command,
        env={**os.environ, "UNIENV_DATA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    )
    events = Counter(done.stdout.split()[1:])
    calls: Counter[str] = Counter()
    if trace is not None:
        text = trace.read_text(errors="replace")
        text = text[text.index("/count-from-here") : text.index("/count-to-here")]
        for line in text.splitlines()[1:]:
            found = re.match(r"\d+ +(\w+)\(", line)
            if found and found[1] not in _MEMORY and "MAP_ANONYMOUS" not in line:
                calls[found[1]] += 1
    return events, calls


@pytest.mark.slow
def test_open_does_the_same_calls_for_any_number_of_pieces(tmp_path: Path) -> None:
    has_strace = shutil.which("strace") is not None
    for count in (10, 100_000):
        with_pieces(tmp_path / str(count), count)
    for mode in ("read", "write"):
        trace = tmp_path / "trace" if has_strace else None
        few = counted(tmp_path / "10", mode, trace)
        many = counted(tmp_path / "100000", mode, trace)
        assert few == many, mode
        assert sum(few[0].values()) >= 20
        if has_strace:
            assert sum(few[1].values()) >= 40


@pytest.mark.slow
def test_a_killed_ring_is_adopted_and_not_encoded_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacity = 30_000
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        ring = ParquetStorage.create(SPACE, cache_path=tmp_path / "s", capacity=capacity)
        for call, start in enumerate(range(0, capacity, 10_000)):
            rows = np.arange(start, start + 10_000)
            ring.set(slice(start, start + 10_000), rows_of_call(rows, call))
        os.write(tell, b"x")
        os.read(os.pipe()[0], 1)  # until it is killed
    os.read(told, 1)
    os.kill(child, 9)
    os.waitpid(child, 0)
    os.close(told)
    os.close(tell)
    encoded: list[Any] = []
    encode = _writer.encode  # type: ignore[attr-defined]

    def count(schema: Any, data: Any, footer: Any, compression: Any) -> Any:
        encoded.append(footer.piece)
        return encode(schema, data, footer, compression)

    monkeypatch.setattr(_writer, "encode", count)
    ring = ParquetStorage.load_from(tmp_path / "s", SPACE, read_only=False)
    assert encoded == []
    rows = np.arange(0, capacity, 7)
    assert (check_rows(rows, ring.get(rows)) == rows // 10_000).all()
    assert encoded == []
    ring.close()
    assert sorted(encoded) == list(range(30))
    with ParquetStorage.load_from(tmp_path / "s", SPACE) as reader:
        assert (check_rows(rows, reader.get(rows)) == rows // 10_000).all()
