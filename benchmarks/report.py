"""Makes the Markdown of a file of results.

python benchmarks/report.py benchmarks/results/latest.json
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TITLES = {
    "a": "bulk write by 1024, flushed",
    "b": "append row by row, flushed",
    "c": "open + first random 256, ms",
    "d": "random 256",
    "e": "64 windows of 16 rows",
    "f": "shuffled epoch by 1024",
    "g": "scan by slices of 1024",
    "h": "one column, random 256",
    "i": "overwrite 256 random rows x 200, flushed",
    "j": "one row by int",
}


@dataclass(frozen=True)
class Goal:
    """A ratio that ours should reach on W1.

    Attributes:
        letter: The scenario.
        least: The ratio.
        peer: Store that it is a ratio to; None is the reference.
    """

    letter: str
    least: float
    peer: str | None = None

    def text(self) -> str:
        """In words."""
        return f">= {self.least:g} x {self.peer or 'memmap[index]'}"

    def check(self, stores: dict[str, Any]) -> tuple[float, float] | None:
        """Median, and the least favourable turns; None when it was not measured."""
        ours = figure(stores, "ours", self.letter)
        if ours is None:
            return None
        if self.peer is None:
            return ours["ratio"], ours["lowest"]
        peer = figure(stores, self.peer, self.letter)
        if peer is None:
            return None
        return ours["ratio"] / peer["ratio"], ours["lowest"] / peer["highest"]


GOAL_ROWS = 1_000_000
GOALS = [
    Goal("b", 5, "upstream"),
    Goal("d", 1.5),
    Goal("f", 1.5),
    Goal("h", 1.5),
    Goal("i", 20, "upstream"),
]


def figure(stores: dict[str, Any], store: str, letter: str) -> dict[str, Any] | None:
    """A store's result of a scenario that has a ratio."""
    found = stores.get(store, {}).get("scenarios", {}).get(letter)
    return found if found and "ratio" in found else None


def number(value: float) -> str:
    """Three digits at most, no exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1e-3 else f"{value:.5f}"


def cell(found: dict[str, Any] | None) -> str:
    """One figure with its range."""
    if not found:
        return ""
    if "error" in found:
        return str(found["error"])
    if "ms" in found:
        return f"{found['ms']:.0f} ({found['lowest']:.0f} to {found['highest']:.0f})"
    text = number(found["ratio"])
    if len(found["ratios"]) > 1:
        text += f" ({number(found['lowest'])} to {number(found['highest'])})"
    return text + ("*" if found["calls"] < found["of"] else "")


def row(*cells: Any) -> str:
    """A line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def head(*cells: Any) -> list[str]:
    """The first two lines of a table."""
    return [row(*cells), "|" + "---|" * len(cells)]


def preface(machine: dict[str, Any], workloads: dict[str, Any]) -> list[str]:
    """What the figures depend on and mean."""
    seen: dict[str, str] = {}
    for stores in workloads.values():
        for name, result in stores.items():
            versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items() if v)
            seen[name] = f"{result['library'] or name} ({versions})"
    place = (
        f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, "
        f"{machine['system']}, {machine['file_system']}; commit {machine['commit']}; "
        f"processes a store: {machine['rounds']}. {machine['cache']}"
    )
    lines = ["# Benchmark results", "", place, ""]
    lines += [f"- {name}: {text}" for name, text in seen.items()]
    meaning = (
        "A figure is the time of the reference over that of the store, both in one process and in "
        "turns: the median of the turns, and the lowest and highest. Higher is faster; c is "
        "milliseconds. The reference: arrays in memory and `np.save` for a, b, i, and "
        '`np.load(mmap_mode="r")[index]` for the others. * too slow for all calls: a part was '
        "measured and extrapolated. Only `ours` syncs to disk."
    )
    return [*lines, "", meaning]


def goals(stores: dict[str, Any]) -> list[str]:
    """Which goals hold."""
    lines = ["", "### Goals", ""]
    if stores["ours"]["rows"] != GOAL_ROWS:
        lines += [f"They are meant for {GOAL_ROWS:,} rows.", ""]
    lines += head("", "scenario", "goal", "measured", "least favourable turns", "holds")
    for goal in GOALS:
        found = goal.check(stores)
        if found is None:
            measured, least, holds = "", "", "not measured"
        else:
            measured, least = map(number, found)
            holds = "**no**" if found[0] < goal.least else "yes"
            if found[0] >= goal.least > found[1]:
                holds = "yes, not in every turn"
        lines.append(row(goal.letter, TITLES[goal.letter], goal.text(), measured, least, holds))
    return lines


def details(stores: dict[str, Any]) -> list[str]:
    """Absolute figures, memory and disk."""
    lines = ["", "### Beside the ratios", ""]
    names = list(stores)
    lines += head("", *names)

    def add(title: str, value: Any) -> None:
        cells = []
        for name in names:
            try:
                cells.append(value(stores[name]))
            except (KeyError, TypeError):
                cells.append("")
        if any(cells):
            lines.append(row(title, *cells))

    def of(letter: str, key: str, unit: str = "{}") -> Any:
        return lambda store: unit.format(number(store["scenarios"][letter][key]))

    add("a: rows/s", of("a", "rows_per_s"))
    add("a: ratio to a reference that syncs, too", of("a", "ratio_synced"))
    add("b: rows/s with flush", of("b", "rows_per_s"))
    add("b: us an append, without flush", of("b", "put_us"))
    add("b: ratio to mapped columns", of("b", "ratio_mapped"))
    add("c: reference, ms", of("c", "reference_ms"))
    add("c: while another process has it open, ms", of("c", "shared_ms"))
    add("c: imports before that, ms", of("c", "imports_ms"))
    for letter in "defghj":
        add(
            f"{letter}: us a call", lambda s, x=letter: number(s["scenarios"][x]["subject_s"] * 1e6)
        )
    for letter in "defghj":
        add(
            f"{letter}: ratio of `storage.get`",
            lambda s, x=letter: number(s["scenarios"][x]["storage"]["ratio"]),
        )
    add("h: text column", lambda s: cell(s["scenarios"]["h"]["text"]))
    add("i: batches/s with flush", of("i", "batches_per_s"))
    add("i: ratio to a reference that syncs, too", of("i", "ratio_synced"))
    for what in ("read", "write"):
        for kind in ("peak_rss", "private", "anonymous", "shared_memory"):
            add(f"{what}: {kind} over imports, MB", lambda s, w=what, k=kind: mb(s, w, k))
    add("on disk, MB", lambda s: number(s["disk_mb"]))
    add("raw, MB", lambda s: number(s["raw_mb"]))
    return lines


def mb(store: dict[str, Any], what: str, kind: str) -> str:
    """Memory, rounded."""
    if "error" in store["memory"][what]:
        return str(store["memory"][what]["error"])
    return f"{max(store['memory'][what][kind], 0):.0f}"


def markdown(results: dict[str, Any]) -> str:
    """The whole page."""
    lines = preface(results["machine"], results["workloads"])
    for workload, stores in results["workloads"].items():
        rows = next(iter(stores.values()))["rows"]
        lines += ["", f"## {workload}, {rows:,} rows", ""]
        lines += head("", "scenario", *stores)
        for letter, title in TITLES.items():
            found = [store["scenarios"].get(letter) for store in stores.values()]
            if any(found):
                lines.append(row(letter, title, *map(cell, found)))
        if workload == "W1" and "ours" in stores:
            lines += goals(stores)
        lines += details(stores)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text())), end="")
