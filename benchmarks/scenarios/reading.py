"""Scenarios that read, after everything was read once: d to h, and j."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scenarios.bench import Bench
from scenarios.timing import Effort, Result, compare_reads

BATCH = 256
EPOCH_BATCH = 1024
WINDOWS, WINDOW = 64, 16


def _read(bench: Bench, items: Sequence[Any]) -> Result:
    """`get` of both; of a library also the storage's, without the buffer around it."""
    bench.open()
    result = compare_reads(bench.reference.get, bench.store.get, items, bench.effort)
    _add_storage(bench, result, bench.reference.get, lambda: bench.store.storage_get(), items)
    return result


def _add_storage(
    bench: Bench,
    result: Result,
    reference: Callable[[Any], Any],
    make: Callable[[], Callable[[Any], Any]],
    items: Sequence[Any],
) -> None:
    if not bench.store.is_library:
        return
    effort = Effort(max(3, bench.effort.turns // 2), budget_s=bench.effort.budget_s / 4)
    found = compare_reads(reference, make(), items, effort)
    result["storage"] = {key: found[key] for key in ("ratio", "lowest", "highest", "subject_s")}


def d_random(bench: Bench) -> Result:
    """Random batches of 256."""
    rng = bench.rng("d")
    return _read(bench, [rng.integers(0, bench.rows, BATCH) for _ in range(400)])


def e_windows(bench: Bench) -> Result:
    """64 windows of 16 rows, as one index."""
    rng = bench.rng("e")
    starts = [rng.integers(0, bench.rows - WINDOW, WINDOWS) for _ in range(200)]
    return _read(bench, [(start[:, None] + np.arange(WINDOW)).reshape(-1) for start in starts])


def f_epoch(bench: Bench) -> Result:
    """A shuffled epoch by 1024."""
    order = bench.rng("f").permutation(bench.rows)
    return _read(bench, [order[k : k + EPOCH_BATCH] for k in range(0, bench.rows, EPOCH_BATCH)])


def g_scan(bench: Bench) -> Result:
    """A scan by slices of 1024."""
    starts = range(0, bench.rows, EPOCH_BATCH)
    return _read(bench, [slice(k, min(k + EPOCH_BATCH, bench.rows)) for k in starts])


def h_column(bench: Bench) -> Result:
    """Random batches of 256 of the column `obs`, by a view that is kept."""
    result = _column(bench, "obs")
    if bench.workload.startswith("W3"):
        result["text"] = _column(bench, "task")
    return result


def _column(bench: Bench, name: str) -> Result:
    bench.open()
    rng = bench.rng("h")
    items = [rng.integers(0, bench.rows, BATCH) for _ in range(1000)]

    def reference(index: Any) -> Any:
        return bench.reference.column(name, index)

    def subject(index: Any) -> Any:
        return bench.store.column(name, index)

    result = compare_reads(reference, subject, items, bench.effort)
    _add_storage(bench, result, reference, lambda: bench.store.storage_column(name), items)
    return result


def j_one_row(bench: Bench) -> Result:
    """One row by int."""
    return _read(bench, [int(row) for row in bench.rng("j").integers(0, bench.rows, 4000)])
