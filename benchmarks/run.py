"""One store in one process, with the reference taking turns. Usually called by `all.py`.

    python benchmarks/run.py --store ours --scenarios adfh --workload W1 --rows 100000 --out x.json

`--store ours` and `--store upstream` are the same code: which library it is depends on the Python
that runs it, and is checked.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

from scenarios import stores, workloads
from scenarios.bench import Bench
from scenarios.probes import PROBES
from scenarios.table import ORDER, SCENARIOS
from scenarios.timing import Effort
from scenarios.writing import write_once


def main() -> None:
    """Parses, runs, writes JSON."""
    arguments = parse()
    base = arguments.base or Path(tempfile.mkdtemp(prefix="unienv-bench-", dir=arguments.scratch))
    try:
        bench = Bench(
            arguments.store if arguments.store != "reference" else "memmap",
            arguments.workload,
            arguments.rows or workloads.DEFAULT_ROWS[arguments.workload],
            base,
            Effort(arguments.turns, arguments.runs, arguments.budget_s),
            arguments.piece_size,
            arguments.compression,
        )
        if arguments.probe:
            if arguments.store == "reference":
                bench.store = bench.reference
            print(json.dumps(PROBES[arguments.probe](bench)))
            return
        text = json.dumps(run(bench, arguments.scenarios), indent=1)
    finally:
        if arguments.base is None:
            shutil.rmtree(base, ignore_errors=True)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    else:
        print(text)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", choices=(*stores.NAMES, "reference"), required=True)
    parser.add_argument("--scenarios", default="".join(SCENARIOS), help="letters, a to j")
    parser.add_argument("--workload", choices=sorted(workloads.COLUMNS), default="W1")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--turns", type=int, default=Effort.turns)
    parser.add_argument("--runs", type=int, default=Effort.runs)
    parser.add_argument("--budget-s", type=float, default=Effort.budget_s, help="a scenario")
    parser.add_argument("--piece-size", type=int, help="rows a Parquet file")
    parser.add_argument("--compression")
    parser.add_argument("--out", type=Path, help="JSON; otherwise printed")
    parser.add_argument(
        "--scratch",
        default=os.environ.get("BENCH_DIR"),
        help="where data goes; a real disk, or syncing costs nothing",
    )
    parser.add_argument("--base", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--probe", choices=sorted(PROBES), help=argparse.SUPPRESS)
    return parser.parse_args()


def run(bench: Bench, letters: str) -> dict[str, Any]:
    """Every scenario asked for that the store can take part in."""
    library = check_library(bench)
    bench.generate()
    results: dict[str, Any] = {}
    wanted = [x for x in ORDER if x in letters and x in bench.store.letters]
    if "a" not in wanted:
        write_once(bench)
    for letter in wanted:
        started = time.perf_counter()
        try:
            results[letter] = SCENARIOS[letter](bench)
        except Exception as error:  # noqa: BLE001 - one failure must not lose the others
            traceback.print_exc()
            results[letter] = {"error": type(error).__name__}
        if letter == "a" and results["a"].get("calls") != results["a"].get("of"):
            write_once(bench)  # the budget ended it early: the others need all rows
        spent = time.perf_counter() - started
        print(f"  {letter} {bench.name} {bench.workload}: {spent:.1f} s", file=sys.stderr)
    bench.close()
    return {
        "store": bench.name,
        "workload": bench.workload,
        "rows": bench.rows,
        "raw_mb": bench.rows * workloads.row_bytes(bench.workload) / 1e6,
        "turns": bench.effort.turns,
        "runs": bench.effort.runs,
        "budget_s": bench.effort.budget_s,
        "piece_size": bench.piece_size or 1024,
        "compression": bench.compression or "snappy",
        "library": library,
        "versions": versions(),
        "file_system": file_system(bench.base),
        "disk_mb": disk_mb(bench.store.directory),
        "memory": memory(bench),
        "scenarios": dict(sorted(results.items())),
    }


def check_library(bench: Bench) -> str | None:
    """Names the library under test, and refuses the wrong one."""
    if not bench.store.is_library:
        return None
    library: str = bench.store.imports()
    if library.startswith("unienv ") != (bench.name == "upstream"):
        raise SystemExit(f"--store {bench.name}, but this Python imports {library}")
    return library


def memory(bench: Bench) -> dict[str, Any]:
    """Of reading and of writing, each in a fresh process."""
    found: dict[str, Any] = {}
    for what in ("read", "write"):
        try:
            found[what] = bench.probe(f"memory-{what}")
        except Exception as error:  # noqa: BLE001 - as above
            found[what] = {"error": type(error).__name__}
    return found


def versions() -> dict[str, str | None]:
    """Of this process. pyarrow imports pandas on first use, where there is one: 0.3 s."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in ("numpy", "pyarrow", "pandas"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def file_system(path: Path) -> str:
    """Kind of the file system that holds the data."""
    best = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if path.resolve().is_relative_to(where) and len(where) >= len(best[0]):
            best = (where, kind)
    return best[1]


def disk_mb(directory: Path) -> float:
    """What the closed store takes on disk."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return sum(path.stat().st_blocks * 512 for path in files) / 1e6


if __name__ == "__main__":
    main()
