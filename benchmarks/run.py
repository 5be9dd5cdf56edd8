"""One store in one process, with the reference taking turns. Called by `all.py`.

python benchmarks/run.py --store ours --workload W1 --rows 100000 --out x.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from scenarios import stores, workloads
from scenarios.timing import compare, seconds

REPEATS = 5
STORES = ("ours", "ours-unsynced", "upstream", "take", "pyarrow")


def make_store(name: str, directory: Path, workload: str) -> Any:
    """The store of a name."""
    if name == "take":
        return stores.Take(directory / "memmap", workload)
    if name == "pyarrow":
        return stores.BareParquet(directory / "pyarrow", workload)
    options = {"durability": "process"} if name == "ours-unsynced" else {}
    return stores.UniEnv(directory / name, workload, name, **options)


def memory_mb() -> dict[str, float]:
    """Peak resident and present private memory of this process."""
    private = 0
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean", "Private_Dirty")):
            private += int(line.split()[1])
    peak = next(
        int(line.split()[1])
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return {"peak_rss_mb": peak / 1024, "private_mb": private / 1024}


def cold(arguments: argparse.Namespace, directory: Path) -> None:
    """Prints the milliseconds from opening to the first batch; the imports are done before."""
    store = make_store(arguments.store, directory, arguments.workload)
    if arguments.store not in ("take",):
        import unienv_data.storages.parquet  # noqa: F401
    index = np.random.default_rng(1).integers(0, arguments.rows, 256)
    started = time.perf_counter()
    store.open()
    store.get(index)
    print((time.perf_counter() - started) * 1000)
    store.close()


class Bench:
    """The scenarios, each a method of one letter."""

    def __init__(self, arguments: argparse.Namespace, directory: Path) -> None:
        self.arguments = arguments
        self.directory = directory
        self.rows = arguments.rows
        self.data = workloads.make(arguments.workload, self.rows)
        self.reference = stores.Memmap(directory / "memmap", arguments.workload)
        self.store = make_store(arguments.store, directory, arguments.workload)
        self.rng = np.random.default_rng(7)
        self.is_slow = arguments.store == "upstream"

    def scale(self, count: int, slow: int) -> int:
        """Fewer turns for stores that would take minutes; ratios stay comparable."""
        return slow if self.is_slow else count

    def indexes(self, count: int, size: int) -> list[Any]:
        """Random rows."""
        return [self.rng.integers(0, self.rows, size) for _ in range(count)]

    def a(self) -> dict[str, Any]:
        """Bulk write by 1024, flushed."""
        repeats = self.scale(3, 1)
        return compare(
            lambda: self.reference.write(self.data), lambda: self.store.write(self.data), repeats
        )

    def b(self) -> dict[str, Any]:
        """Append row by row through the buffer, flushed."""
        count = min(self.scale(100_000, 5_000), self.rows)
        rows = workloads.samples(self.data, count)
        result = compare(
            lambda: self.reference.append(rows, mapped=True),
            lambda: self.store.append(rows),
            self.scale(3, 1),
        )
        result["rows_per_s"] = count / result["subject_s"]
        in_memory = seconds(lambda: self.reference.append(rows, mapped=False))
        result["ratio_to_memory"] = in_memory / result["subject_s"]
        return result

    def c(self) -> dict[str, Any]:
        """Open and first random batch in a fresh process."""
        times = []
        for _ in range(self.scale(5, 3)):
            command = [sys.executable, __file__, "--cold", "--store", self.arguments.store]
            command += ["--workload", self.arguments.workload, "--rows", str(self.rows)]
            command += ["--directory", str(self.directory)]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            times.append(float(output.strip().splitlines()[-1]))
        return {"ms": sorted(times)[len(times) // 2], "lowest": min(times), "highest": max(times)}

    def _read(self, indexes: list[Any], slow: int) -> dict[str, Any]:
        chosen = indexes[: self.scale(len(indexes), slow)]

        def turn(store: Any) -> None:
            for index in chosen:
                store.get(index)

        turn(self.reference)
        return compare(
            lambda: turn(self.reference), lambda: turn(self.store), self.scale(REPEATS, 1)
        )

    def d(self) -> dict[str, Any]:
        """Random batches of 256."""
        return self._read(self.indexes(400, 256), 5)

    def e(self) -> dict[str, Any]:
        """64 windows of 16 rows."""
        starts = [self.rng.integers(0, self.rows - 16, 64) for _ in range(200)]
        windows = [(start[:, None] + np.arange(16)).reshape(-1) for start in starts]
        return self._read(windows, 4)

    def f(self) -> dict[str, Any]:
        """A shuffled epoch by 1024."""
        order = self.rng.permutation(self.rows)
        return self._read([order[k : k + 1024] for k in range(0, self.rows, 1024)], 4)

    def g(self) -> dict[str, Any]:
        """A scan by slices of 1024."""
        slices = [slice(k, min(k + 1024, self.rows)) for k in range(0, self.rows, 1024)]
        return self._read(slices, 50)

    def h(self) -> dict[str, Any]:
        """One column, random 256."""
        indexes = self.indexes(self.scale(1000, 5), 256)

        def turn(store: Any) -> None:
            for index in indexes:
                store.column("obs", index)

        turn(self.reference)
        turn(self.store)
        return compare(
            lambda: turn(self.reference), lambda: turn(self.store), self.scale(REPEATS, 1)
        )

    def i(self) -> dict[str, Any]:
        """Overwrite 256 random rows x 200, then flush; batches a second."""
        turns = self.scale(200, 3)
        indexes = self.indexes(turns, 256)
        batches = [workloads.batch(self.data, index) for index in indexes]
        self.store.close()
        self.store.open(read_only=False)
        mine = seconds(lambda: self.reference.overwrite(self.data, indexes, batches))
        theirs = seconds(lambda: self.store.overwrite(self.data, indexes, batches))
        return {"ratio": mine / theirs, "batches_per_s": turns / theirs, "subject_s": theirs}

    def j(self) -> dict[str, Any]:
        """One row by int."""
        return self._read([int(row) for row in self.rng.integers(0, self.rows, 4000)], 50)

    def run(self) -> dict[str, Any]:
        """Every scenario asked for; the ones that write first."""
        results: dict[str, Any] = {}
        wanted = self.arguments.scenarios
        can_read = hasattr(self.store, "get")
        self.reference.write(self.data)
        if self.arguments.store != "take" and "a" not in wanted:
            self.store.write(self.data)
        for letter in "abcdefghji":
            if letter not in wanted or (letter != "a" and not can_read):
                continue
            if letter in "abi" and self.arguments.store == "take":
                continue
            if letter == "d" or (letter in "efghj" and self.store_is_closed):
                self.open_and_warm()
            started = time.perf_counter()
            results[letter] = getattr(self, letter)()
            spent = time.perf_counter() - started
            print(f"  {letter} {self.arguments.store}: {spent:.1f} s", file=sys.stderr)
        results["memory"] = memory_mb()
        if can_read:
            self.store.close()
        return results

    store_is_closed = True

    def open_and_warm(self) -> None:
        """Opens both and reads everything once; the original would take minutes for that."""
        self.store.close()
        self.reference.open()
        self.store.open()
        self.store_is_closed = False
        for start in range(0, self.scale(self.rows, 20_000), 4096):
            part = slice(start, min(start + 4096, self.rows))
            self.reference.get(part)
            self.store.get(part)


def main() -> None:
    """Parses, runs, writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=STORES, required=True)
    parser.add_argument("--workload", choices=sorted(workloads.COLUMNS), default="W1")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--scenarios", default="abcdefghij")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cold", action="store_true")
    arguments = parser.parse_args()
    arguments.rows = arguments.rows or workloads.DEFAULT_ROWS[arguments.workload]
    if arguments.cold:
        cold(arguments, arguments.directory)
        return
    with tempfile.TemporaryDirectory(
        prefix="unienv-bench-", dir=os.environ.get("BENCH_DIR")
    ) as base:
        results = Bench(arguments, arguments.directory or Path(base)).run()
    text = json.dumps(results, indent=1)
    if arguments.out:
        arguments.out.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
