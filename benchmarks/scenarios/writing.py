"""Scenarios that write: a, b, i."""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios import workloads
from scenarios.bench import Bench
from scenarios.numpy_memmap import NumpyColumns
from scenarios.timing import Result, compare_writes

APPENDED_ROWS = 100_000
OVERWRITES = 200
BATCH = 256


def other_reference(bench: Bench, **options: Any) -> NumpyColumns:
    """A reference with other options, in a directory of its own."""
    name = "reference-" + "-".join(["other", *options])
    return NumpyColumns(bench.base / name, bench.workload, **options)


def a_bulk_write(bench: Bench) -> Result:
    """Bulk write by 1024, flushed."""
    references = {"": lambda: bench.reference.bulk(bench.rows)}
    if bench.is_syncing:
        synced = other_reference(bench, synced=True)
        references["synced"] = lambda: synced.bulk(bench.rows)
    items = [(chunk,) for chunk in workloads.chunks(bench.data)]
    result = compare_writes(references, lambda: bench.store.bulk(bench.rows), items, bench.effort)
    result["rows_per_s"] = bench.rows / result["subject_s"]
    return result


def b_append(bench: Bench) -> Result:
    """Append row by row, flushed; checks and crash safety as they are by default."""
    count = min(APPENDED_ROWS, bench.rows)
    memory = other_reference(bench)
    mapped = other_reference(bench, mapped=True)
    result = compare_writes(
        {"": lambda: memory.appending(count), "mapped": lambda: mapped.appending(count)},
        lambda: bench.store.appending(count),
        [(row,) for row in workloads.samples(bench.data, count)],
        bench.effort,
    )
    result["rows_per_s"] = count / result["subject_s"]
    result["put_us"] = result["put_s"] / count * 1e6
    return result


def i_overwrite(bench: Bench) -> Result:
    """Overwrite 256 random rows 200 times, then flush; opening is not counted."""
    bench.close()
    references = {"": bench.reference.overwriting}
    if bench.is_syncing:
        synced = other_reference(bench, synced=True)
        write(synced, bench)
        references["synced"] = synced.overwriting
    rng = bench.rng("i")
    indexes = [rng.integers(0, bench.rows, BATCH) for _ in range(OVERWRITES)]
    others = [(index + 1) % bench.rows for index in indexes]  # not what is there already
    batches = [workloads.batch(bench.data, index) for index in others]
    items = list(zip(indexes, batches, strict=True))
    result = compare_writes(references, bench.store.overwriting, items, bench.effort)
    if result["calls"] == result["of"]:
        check_overwritten(bench, indexes)
    result["batches_per_s"] = OVERWRITES / result["subject_s"]
    return result


def check_overwritten(bench: Bench, indexes: list[Any]) -> None:
    """Raises when the store and the reference do not hold the same rows after it."""
    bench.reference.open()
    bench.store.open()
    for index in (indexes[0], indexes[-1]):
        expected = bench.reference.get(index)
        found = bench.store.get(index)
        for name, values in expected.items():
            if not np.array_equal(found[name], values):
                raise AssertionError(f"overwrite: column {name!r} differs from the reference")
    bench.reference.close()
    bench.store.close()


def write(store: Any, bench: Bench) -> None:
    """Writes all rows without a clock."""
    session = store.bulk(bench.rows)
    for chunk in workloads.chunks(bench.data):
        session.put(chunk)
    session.flush()
    session.close()


def write_once(bench: Bench) -> None:
    """Writes both stores, for the scenarios that read."""
    write(bench.reference, bench)
    write(bench.store, bench)
