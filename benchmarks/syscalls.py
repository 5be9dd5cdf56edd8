"""What each call asks of the system: calls, syncs and renames, counted by strace.

    python benchmarks/syscalls.py

Runs itself under `strace -f` and marks each step by looking for a file that does not exist.
Memory that is no file (brk, munmap, anonymous mmap) and waiting for threads are left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BoxSpace, DictSpace

SPACE = DictSpace(
    B,
    {
        "obs": BoxSpace(B, -np.inf, np.inf, np.float32, shape=(6,)),
        "action": BoxSpace(B, -1, 1, np.float32, shape=(2,)),
        "reward": BoxSpace(B, -np.inf, np.inf, np.float64, shape=()),
    },
)
LEFT_OUT = {"brk", "munmap", "madvise", "mprotect", "futex", "getpid", "sched_yield", "clone3"}
SYNCS = {"fsync", "fdatasync", "syncfs"}


def batch(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "obs": rng.standard_normal((count, 6), np.float32),
        "action": rng.uniform(-1, 1, (count, 2)).astype(np.float32),
        "reward": rng.standard_normal(count),
    }


def work(directory: Path) -> None:
    one = {name: values[0] for name, values in batch(1).items()}

    def step(name: str, call: Any, *arguments: Any) -> Any:
        os.path.exists(f"/step:{name}")
        result = call(*arguments)
        os.path.exists("/step:")
        return result

    path = directory / "buffer"
    options = {"cache_path": path, "maintain_segment_metadata": True, "piece_size": 1024}
    warm: Any = ReplayBuffer.create(ParquetStorage, SPACE, cache_path=directory / "warm")
    warm.extend(batch(2000))
    warm.flush()
    warm.get_at(0)
    warm.close()
    buffer: Any = step("create", lambda: ReplayBuffer.create(ParquetStorage, SPACE, **options))
    step("append, first row of a piece", buffer.append, one)
    step("append, any other row", buffer.append, one)
    step("mark_segment_end", buffer.mark_segment_end)
    step("extend by 100 rows", buffer.extend, batch(100))
    writer = buffer.open_segment_writer()
    for _ in range(50):
        writer.append(one)
    step("commit_segment of 50 rows", buffer.commit_segment, writer)
    step("set_at of 10 rows, not committed yet", buffer.set_at, np.arange(10), batch(10))
    step("flush, one piece with new rows", buffer.flush)
    step("flush, nothing to do", buffer.flush)
    step("set_at of 10 committed rows", buffer.set_at, np.arange(10), batch(10))
    step("flush, one piece with overwritten rows", buffer.flush)
    buffer.extend(batch(20 * 1024))
    buffer.storage._writer.sealer.drain()
    step("flush, 20 pieces sealed before", buffer.flush)
    step("dumps to its own directory", buffer.dumps, path)
    step("dumps to another, 21 pieces", buffer.dumps, directory / "copy")
    reader: Any = step("open read-only", lambda: ReplayBuffer.load_from(path, backend=B))
    step("first read of a piece", reader.get_at, 5)
    step("read of a piece that is present", reader.get_at, 6)
    step("refresh", reader.refresh)
    step("close of a reader", reader.close)
    step("close", buffer.close)
    again: Any = step(
        "open for writing", lambda: ReplayBuffer.load_from(path, backend=B, read_only=False)
    )
    again.close()


def main() -> None:
    if len(sys.argv) > 1:
        work(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory(prefix="syscalls-") as directory:
        trace = Path(directory) / "trace"
        command = ["strace", "-f", "-o", str(trace), sys.executable, __file__, directory]
        subprocess.run(command, check=True)
        name, counts = "", Counter[str]()
        print("| call | system calls | syncs | renames |\n|---|---|---|---|")
        for line in trace.read_text(errors="replace").splitlines():
            mark = re.search(r'"/step:([^"]*)"', line)
            if mark:
                if not mark[1]:
                    total = sum(counts.values())
                    syncs = sum(counts[sync] for sync in SYNCS)
                    print(f"| {name} | {total} | {syncs} | {counts['rename']} |")
                name = mark[1]
                counts.clear()
            found = re.match(r"\d+ +(\w+)\(", line)
            if (
                found
                and not mark
                and name
                and "MAP_ANONYMOUS" not in line
                and found[1] not in LEFT_OUT
            ):
                counts[found[1]] += 1


if __name__ == "__main__":
    main()
