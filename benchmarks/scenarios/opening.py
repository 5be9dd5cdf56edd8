"""Scenario c: opening in a fresh process."""

from __future__ import annotations

import statistics

from scenarios.bench import Bench
from scenarios.timing import Result


def c_open(bench: Bench) -> Result:
    """Milliseconds from opening to the first random batch of 256, in a fresh process.

    No other process has the rows decoded. For a library also: while this process has it open and
    warm, since decoded rows may be shared.
    """
    bench.close()
    repeats = min(5, bench.effort.turns)
    pairs = [(bench.probe("open", "reference"), bench.probe("open")) for _ in range(repeats)]
    times = [mine["ms"] for _, mine in pairs]
    result = {
        "ms": statistics.median(times),
        "lowest": min(times),
        "highest": max(times),
        "times": times,
        "imports_ms": statistics.median(mine["imports_ms"] for _, mine in pairs),
        "reference_ms": statistics.median(other["ms"] for other, _ in pairs),
    }
    if bench.store.is_library:
        bench.open()
        result["shared_ms"] = statistics.median(
            bench.probe("open")["ms"] for _ in range(max(3, repeats // 2))
        )
    return result
