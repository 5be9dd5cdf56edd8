"""Runs every store on every workload and writes JSON and a Markdown table.

    python benchmarks/all.py                 # about ten minutes
    python benchmarks/all.py --quick         # small row counts, about two

The original library runs in an environment of its own, since it has our import names; it is made
under `.venv-upstream` unless `--upstream-python` names one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
UPSTREAM = "unienv==0.0.1b16"

SCENARIOS = {
    "a": "bulk write by 1024, flushed",
    "b": "append row by row, flushed",
    "c": "open + first random batch, ms",
    "d": "random 256",
    "e": "64 windows of 16",
    "f": "shuffled epoch by 1024",
    "g": "scan by slices of 1024",
    "h": "one column, random 256",
    "i": "overwrite 256 random rows, flush",
    "j": "one row by int",
}
# (scenario, workload) -> what must hold, as text and as a test of (ours, upstream).
GOALS: dict[tuple[str, str], tuple[str, Any]] = {
    ("b", "W1"): (">= 5 x upstream", lambda o, u: o["rows_per_s"] >= 5 * u["rows_per_s"]),
    ("d", "W1"): (">= 1.5 x memmap", lambda o, _: o["ratio"] >= 1.5),
    ("f", "W1"): (">= 1.5 x memmap", lambda o, _: o["ratio"] >= 1.5),
    ("h", "W1"): (">= 1.5 x memmap", lambda o, _: o["ratio"] >= 1.5),
    ("i", "W1"): (">= 20 x upstream", lambda o, u: o["batches_per_s"] >= 20 * u["batches_per_s"]),
}
STORES = ("ours", "ours-unsynced", "upstream", "take", "pyarrow")
QUICK_ROWS = {"W1": 100_000, "W2": 20_000, "W3": 50_000}


def upstream_python(given: str | None) -> str:
    """Python of an environment with the original library."""
    if given:
        return given
    home = ROOT / ".venv-upstream"
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "--pre", UPSTREAM, "pyarrow>=17"], check=True
        )
        (home / ".ready").touch()
    return str(python)


def machine() -> dict[str, Any]:
    """What the figures depend on; no names of hosts or paths."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30,
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "pyarrow": metadata.version("pyarrow"),
        "upstream": UPSTREAM,
        "cache": "warm: read once before timing",
        "commit": commit,
    }


def run(store: str, workload: str, rows: int | None, python: str, scenarios: str) -> dict[str, Any]:
    """One store in one process."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [python, str(HERE / "run.py"), "--store", store, "--workload", workload]
        command += ["--scenarios", scenarios, "--out", out.name]
        if rows:
            command += ["--rows", str(rows)]
        environment = dict(os.environ)
        environment.pop("PYTHONPATH", None)
        if store != "upstream" and "PYTHONPATH" in os.environ:
            environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
        subprocess.run(command, check=True, env=environment)
        result: dict[str, Any] = json.loads(Path(out.name).read_text())
        return result


def cell(result: dict[str, Any] | None) -> str:
    """A ratio with its range, or milliseconds."""
    if not result:
        return ""
    if "ms" in result:
        return f"{result['ms']:.0f} ms"
    text = f"{result['ratio']:.3g}"
    if "lowest" in result and result.get("repeats", 1) > 1:
        text += f" ({result['lowest']:.2g} to {result['highest']:.2g})"
    if "rows_per_s" in result:
        text += f", {result['rows_per_s']:,.0f} rows/s"
    if "batches_per_s" in result:
        text += f", {result['batches_per_s']:,.1f} batches/s"
    return text


def table(results: dict[str, Any]) -> str:
    """The Markdown of all results."""
    facts = results["machine"]
    place = (
        f"{facts['cores']} cores of {facts['cpu']}, {facts['memory_gib']} GiB, Python "
        f"{facts['python']}, numpy {facts['numpy']}, pyarrow {facts['pyarrow']}; commit "
        f"{facts['commit']}. {facts['cache']}."
    )
    lines = [
        "# Benchmark results",
        "",
        place,
        "",
        "Ratios to numpy memory maps in the same process, taking turns; higher is faster.",
        "For a and i the reference is arrays in memory and `np.save`, for b mapped columns.",
    ]
    for workload, stores in results["workloads"].items():
        lines += ["", f"## {workload}, {stores['rows']:,} rows", ""]
        lines += ["| | scenario | goal | " + " | ".join(STORES) + " | holds |"]
        lines += ["|---|---|---|" + "---|" * (len(STORES) + 1)]
        for letter, title in SCENARIOS.items():
            goal, test = GOALS.get((letter, workload), ("", None))
            ours = stores.get("ours", {}).get(letter)
            upstream = stores.get("upstream", {}).get(letter)
            holds = (
                "" if test is None or not ours else ("yes" if test(ours, upstream) else "**no**")
            )
            cells = [cell(stores.get(store, {}).get(letter)) for store in STORES]
            lines.append(f"| {letter} | {title} | {goal} | " + " | ".join(cells) + f" | {holds} |")
        memory = [
            f"{store} {stores[store]['memory']['peak_rss_mb']:.0f}"
            for store in STORES
            if store in stores
        ]
        lines += [
            "",
            "Peak resident MB of the process, data and reference included: " + ", ".join(memory),
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workloads", default="W1,W2,W3")
    parser.add_argument("--upstream-python")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "latest")
    arguments = parser.parse_args()
    other = upstream_python(arguments.upstream_python)
    results: dict[str, Any] = {"machine": machine(), "workloads": {}}
    for workload in arguments.workloads.split(","):
        sys.path.insert(0, str(HERE))
        from scenarios.workloads import DEFAULT_ROWS

        rows = QUICK_ROWS[workload] if arguments.quick else DEFAULT_ROWS[workload]
        stores: dict[str, Any] = {"rows": rows}
        for store in STORES:
            print(f"{workload} {store}", file=sys.stderr)
            scenarios = {"ours-unsynced": "abi", "pyarrow": "a"}.get(store, "".join(SCENARIOS))
            python = other if store == "upstream" else sys.executable
            stores[store] = run(store, workload, rows, python, scenarios)
        results["workloads"][workload] = stores
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    text = table(results)
    arguments.out.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
