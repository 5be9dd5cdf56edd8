"""What durability costs: flush with and without syncs, recovery, memory of long runs.

    python benchmarks/durability.py [--rows N] [--batches N] [--directory D] [--only PART ...]

Prints a table and writes `results/durability.json`. Each part runs in a process of its own. The
limits it is held to: a killed ring of 1,000,000 rows that were never sealed opens in under 2 s
and nothing is encoded before it is open; private memory stays within the budget + 64 MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from scenarios.memory import Watch

from unienv_data.storages import _writer
from unienv_data.storages.parquet import ParquetStorage
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace

SPACE = DictSpace(
    B,
    {
        "obs": BoxSpace(B, -np.inf, np.inf, np.float32, shape=(6,)),
        "action": BoxSpace(B, -1, 1, np.float32, shape=(2,)),
        "reward": BoxSpace(B, -np.inf, np.inf, np.float64, shape=()),
        "done": BinarySpace(B, ()),
    },
)
ROW_BYTES = 6 * 4 + 2 * 4 + 8 + 1
BUDGET = 48 << 20
PARTS = ("flush", "recovery", "append", "batches")


def batch(count: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "obs": rng.standard_normal((count, 6), np.float32),
        "action": rng.uniform(-1, 1, (count, 2)).astype(np.float32),
        "reward": rng.standard_normal(count),
        "done": rng.random(count) < 0.01,
    }


def flush(directory: Path, _: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of `flush` after 1024 new rows, and after overwriting one old row."""
    result: dict[str, Any] = {}
    for durability in ("power", "process"):
        path = directory / durability
        storage = ParquetStorage.create(SPACE, cache_path=path, durability=durability)
        new, old = [], []
        for turn in range(21):
            start = len(storage)
            storage.extend_length(1000)
            storage.set(slice(start, start + 1000), batch(1000, turn))
            begin = time.perf_counter()
            storage.flush()
            new.append(time.perf_counter() - begin)
            storage.set(slice(5, 6), batch(1, turn))
            begin = time.perf_counter()
            storage.flush()
            old.append(time.perf_counter() - begin)
        storage.close()
        result[f"flush_1000_new_rows_ms_{durability}"] = 1e3 * statistics.median(new[1:])
        result[f"flush_one_old_row_ms_{durability}"] = 1e3 * statistics.median(old[1:])
    return result


def recovery(directory: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds to open a ring whose writer was killed with every row unsealed."""
    path, capacity = directory / "ring", arguments.ring
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        storage = ParquetStorage.create(SPACE, cache_path=path, capacity=capacity)
        for start in range(0, capacity, 50_000):
            stop = min(start + 50_000, capacity)
            storage.set(slice(start, stop), batch(stop - start, start))
        os.write(tell, b"x")
        signal.pause()
    os.read(told, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    encoded = 0
    encode = _writer.encode

    def counted(*values: Any) -> Any:
        nonlocal encoded
        encoded += 1
        return encode(*values)

    _writer.encode = counted
    begin = time.perf_counter()
    storage = ParquetStorage.load_from(path, SPACE, read_only=False)
    opened = time.perf_counter() - begin
    while_opening = encoded
    last = storage.get(capacity - 1)["reward"]
    start = (capacity - 1) // 50_000 * 50_000
    assert last == batch(capacity - start, start)["reward"][-1]
    begin = time.perf_counter()
    storage.close()
    return {
        "recovered_rows": capacity,
        "recovery_open_s": opened,
        "pieces_encoded_while_opening": while_opening,
        "recovery_close_s": time.perf_counter() - begin,
        "pieces_encoded_by_close": encoded,
    }


def append(directory: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Memory of an append run whose bank budget is a fraction of the rows."""
    data = batch(4096)
    samples = [{name: values[row] for name, values in data.items()} for row in range(4096)]
    watch = Watch()
    begin = time.perf_counter()
    storage = ParquetStorage.create(
        SPACE, cache_path=directory / "data", bank_bytes=BUDGET, durability="process"
    )
    storage.mark_segment_start(0)
    for row in range(arguments.rows):
        storage.append(samples[row % 4096])
        if row % 50_000 == 0:
            watch.look()
    seconds = time.perf_counter() - begin
    watch.look()
    storage.mark_segment_end()
    storage.close()
    return {
        "appended_rows": arguments.rows,
        "append_s": seconds,
        "append_budget_mb": BUDGET / 1e6,
        **{f"append_{kind}_mb": value for kind, value in watch.result().items()},
    }


def batches(directory: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Memory of random batches over data of 8 times the budget."""
    rng = np.random.default_rng(0)
    watch = Watch()
    begin = time.perf_counter()
    storage = ParquetStorage.load_from(
        directory / "data", SPACE, bank_bytes=BUDGET, cache_dir=directory / "cache"
    )
    for turn in range(arguments.batches):
        storage.get(rng.integers(0, len(storage), 16))
        if turn % 100 == 0:
            watch.look()
    seconds = time.perf_counter() - begin
    rows = len(storage)
    storage.close()
    return {
        "batches": arguments.batches,
        "batch_rows": 16,
        "batches_data_over_budget": rows * ROW_BYTES / BUDGET,
        "batches_s": seconds,
        "batches_budget_mb": BUDGET / 1e6,
        **{f"batches_{kind}_mb": value for kind, value in watch.result().items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--ring", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(globals()[arguments.part](arguments.directory, arguments)))
        return
    directory = Path(tempfile.mkdtemp(prefix="durability-", dir=arguments.directory))
    results: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    try:
        for part in arguments.only:
            command = [sys.executable, __file__, "--part", part, "--directory", str(directory)]
            for name in ("rows", "ring", "batches"):
                command += [f"--{name}", str(getattr(arguments, name))]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout)
            results |= found
            for name, value in found.items():
                print(f"{name:45} {value:>16,.3f}", flush=True)
            (Path(__file__).parent / "results" / "durability.json").write_text(
                json.dumps(results, indent=2) + "\n"
            )
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
