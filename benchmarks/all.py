"""Runs every store on every workload and writes JSON and a Markdown table.

    python benchmarks/all.py                 # about half an hour
    python benchmarks/all.py --quick         # small row counts, a few minutes, not to be quoted

The libraries share import names, so each runs in an environment of its own, made under
`benchmarks/.venvs` with the same numpy and pyarrow, unless `--ours-python` or `--upstream-python`
names one. The project's own environment is not used: it has pandas, which pyarrow imports.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

from report import GOALS, TITLES, markdown
from scenarios.workloads import DEFAULT_ROWS, QUICK_ROWS

HERE = Path(__file__).parent
ROOT = HERE.parent
VENVS = HERE / ".venvs"
UPSTREAM = "unienv==0.0.1b16"
STORES = {
    "ours": "abcdefghij",
    "ours-unsynced": "abi",
    "upstream": "abcdefghij",
    "memmap": "abcdefghij",
    "take": "cdefghj",
    "pyarrow": "abcdefghj",
    "pyarrow-table": "cdefghj",
}
"""Scenarios of a store: what would only repeat another one is left out."""

QUICK = ("--turns", "5", "--runs", "1", "--budget-s", "2")
ROUNDS_KEYS = {"ratio": "ratios", "ms": "times"}


def environment() -> dict[str, str]:
    """For the subprocesses: nothing that would mix the libraries.

    Compiled modules are kept for both alike: pip compiles what it installs, but our sources are
    used where they are, and compiling them on every start would count as opening.
    """
    left_out = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if k not in left_out}
    return kept | {"PYTHONPYCACHEPREFIX": str(VENVS / "pycache")}


def python_of(home: Path, packages: list[str], depends_on: str = "") -> str:
    """Python of an environment, which is made when it is not there or not of this."""
    python = home / "bin" / "python"
    ready = home / ".ready"
    wanted = hashlib.sha256("\n".join([*packages, depends_on]).encode()).hexdigest()
    if not ready.exists() or ready.read_text() != wanted:
        print(f"making {home.name}: {' '.join(packages)}", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*command, *packages], check=True, env=environment(), stdout=sys.stderr)
        ready.write_text(wanted)
    return str(python)


def pythons(arguments: argparse.Namespace) -> dict[str, str]:
    """The Python of each library."""
    pins = [f"{name}=={metadata.version(name)}" for name in ("numpy", "pyarrow")]
    found = {}
    if any(store != "upstream" for store in arguments.stores):
        packages = ["--editable", str(ROOT), *pins]
        found["ours"] = arguments.ours_python or python_of(
            VENVS / "ours", packages, (ROOT / "pyproject.toml").read_text()
        )
    if "upstream" in arguments.stores:
        home = arguments.venv or VENVS / "upstream"
        found["upstream"] = arguments.upstream_python or python_of(home, ["--pre", UPSTREAM, *pins])
    return found


def machine(rounds: int) -> dict[str, Any]:
    """What the figures depend on; no names of hosts or paths."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30,
        "system": f"{platform.system()} {platform.release()}",
        "cache": "Page cache warm: just written, and read once before the clock starts.",
        "commit": commit(),
        "rounds": rounds,
    }


def commit() -> str:
    """The commit, and whether the sources differ from it."""

    def git(*words: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "benchmarks/scenarios")
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def run(
    store: str, workload: str, rows: int, python: str, arguments: argparse.Namespace
) -> dict[str, Any]:
    """One store in one process."""
    letters = "".join(x for x in STORES[store] if x in arguments.scenarios)
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out.json"
        command = [python, str(HERE / "run.py"), "--store", store, "--workload", workload]
        command += ["--rows", str(rows), "--scenarios", letters, "--out", str(out)]
        command += [*(QUICK if arguments.quick else ()), *arguments.rest]
        subprocess.run(command, check=True, env=environment())
        result: dict[str, Any] = json.loads(out.read_text())
        return result


def merge(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Results of several processes: turns are put together, other figures are medians."""
    merged: dict[str, Any] = combine(rounds)
    for found in merged["scenarios"].values():
        for key, turns in ROUNDS_KEYS.items():
            if turns in found:
                found[key] = statistics.median(found[turns])
                found["lowest"], found["highest"] = min(found[turns]), max(found[turns])
    return merged


def combine(values: list[Any]) -> Any:
    """Joins lists, takes medians of fractional numbers, keeps the first of all else."""
    first = values[0]
    if isinstance(first, dict):
        return {
            key: combine([value[key] for value in values if key in value])
            for key in dict.fromkeys(key for value in values for key in value)
        }
    if isinstance(first, list):
        return [item for value in values for item in value]
    if isinstance(first, float):
        return statistics.median(values)
    return first


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small row counts, few turns")
    parser.add_argument("--stores", type=words, default=list(STORES), help="a,b,...")
    parser.add_argument("--workloads", type=words, default=list(DEFAULT_ROWS), help="W1,W2,...")
    parser.add_argument("--scenarios", default="".join(TITLES), help="letters")
    parser.add_argument("--rows", type=int, help="instead of each workload's own number")
    parser.add_argument("--rounds", type=int, default=1, help="processes a store")
    parser.add_argument("--ours-python")
    parser.add_argument("--upstream-python")
    parser.add_argument("--venv", type=Path, help="where to make upstream's environment")
    parser.add_argument("--out", type=Path, help="without suffix")
    arguments, rest = parser.parse_known_args()
    arguments.rest = rest
    unknown = [store for store in arguments.stores if store not in STORES]
    if unknown:
        parser.error(f"no such store: {', '.join(unknown)}")
    if arguments.out is None:
        # Quick figures are not to be mistaken for those that the README quotes.
        arguments.out = HERE / "results" / ("local/quick" if arguments.quick else "latest")
    return arguments


def words(text: str) -> list[str]:
    """The parts of a list."""
    return text.split(",")


def main() -> int:
    """Runs and writes; 1 when a scenario failed."""
    arguments = parse()
    found = pythons(arguments)
    results: dict[str, Any] = {"machine": machine(arguments.rounds), "workloads": {}}
    for workload in arguments.workloads:
        rows = arguments.rows or (QUICK_ROWS if arguments.quick else DEFAULT_ROWS)[workload]
        runs: dict[str, list[dict[str, Any]]] = {store: [] for store in arguments.stores}
        for _ in range(arguments.rounds):
            for store in arguments.stores:  # stores alternate, so that a slow hour meets all
                if not set(STORES[store]) & set(arguments.scenarios):
                    continue
                print(f"{workload} {store}", file=sys.stderr)
                python = found["upstream" if store == "upstream" else "ours"]
                runs[store].append(run(store, workload, rows, python, arguments))
        results["workloads"][workload] = {name: merge(of) for name, of in runs.items() if of}
        write(results, arguments.out)
    print(markdown(results))
    failures = [
        f"{workload} {store} {letter}: {one['error']}"
        for workload, stores in results["workloads"].items()
        for store, result in stores.items()
        for letter, one in result["scenarios"].items()
        if "error" in one
    ]
    print(*failures, sep="\n", file=sys.stderr)
    return bool(failures)


def write(results: dict[str, Any], out: Path) -> None:
    """JSON and Markdown so far."""
    first = next(iter(next(iter(results["workloads"].values())).values()))
    results["machine"]["file_system"] = first["file_system"]
    stores = results["workloads"].get("W1", {})
    results["goals"] = [
        {"scenario": goal.letter, "goal": goal.text(), "measured": checked, "holds": holds}
        for goal in GOALS
        if (checked := goal.check(stores)) is not None
        for holds in [checked[0] >= goal.least]
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    out.with_suffix(".md").write_text(markdown(results))


if __name__ == "__main__":
    sys.exit(main())
