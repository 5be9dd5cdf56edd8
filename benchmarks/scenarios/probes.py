"""What is measured in a fresh process of its own: opening and memory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from scenarios import workloads
from scenarios.bench import Bench
from scenarios.memory import Watch

BATCHES = 200
LOOK_EVERY = 16


def imports(bench: Bench) -> None:
    """Imports what the store needs."""
    if bench.store.is_library:
        bench.store.imports()


def probe_open(bench: Bench) -> dict[str, Any]:
    """Opening and the first batch."""
    started = time.perf_counter()
    imports(bench)
    imported = time.perf_counter()
    index = bench.rng("c").integers(0, bench.rows, 256)
    before = time.perf_counter()
    bench.store.open()
    bench.store.get(index)
    after = time.perf_counter()
    bench.store.close()
    return {"ms": (after - before) * 1e3, "imports_ms": (imported - started) * 1e3}


def probe_memory_read(bench: Bench) -> dict[str, Any]:
    """Memory of a scan and random batches."""
    imports(bench)
    rng = bench.rng("m")
    starts = range(0, bench.rows, 1024)
    items = [slice(k, min(k + 1024, bench.rows)) for k in starts]
    watch = Watch()
    bench.store.open()
    for number, item in enumerate(items):
        bench.store.get(item)
        if number % LOOK_EVERY == 0:
            watch.look()
    until = time.perf_counter() + bench.effort.budget_s / 4
    for number in range(BATCHES):
        bench.store.get(rng.integers(0, bench.rows, 256))
        if number % LOOK_EVERY == 0:
            watch.look()
        if time.perf_counter() > until:
            break
    result = watch.result()
    bench.store.close()
    return result


def probe_memory_write(bench: Bench) -> dict[str, Any]:
    """Memory of a bulk write, from a few batches that are written again and again."""
    imports(bench)
    bench.store.directory = bench.base / f"memory-{bench.name}"
    chunks = list(workloads.chunks(workloads.make(bench.workload, 16 * workloads.CHUNK)))
    watch = Watch()
    session = bench.store.bulk(bench.rows)
    for number in range(int(np.ceil(bench.rows / workloads.CHUNK))):
        left = bench.rows - number * workloads.CHUNK
        chunk = chunks[number % len(chunks)]
        if left < workloads.CHUNK:
            chunk = {name: values[:left] for name, values in chunk.items()}
        session.put(chunk)
        if number % LOOK_EVERY == 0:
            watch.look()
    session.flush()
    result = watch.result()
    session.close()
    return result


PROBES = {
    "open": probe_open,
    "memory-read": probe_memory_read,
    "memory-write": probe_memory_write,
}
