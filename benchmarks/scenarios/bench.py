"""What a scenario works with."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scenarios import stores, workloads
from scenarios.numpy_memmap import NumpyColumns
from scenarios.timing import Effort

RUN = Path(__file__).parent.parent / "run.py"


@dataclass
class Bench:
    """One store beside its reference, on one workload, in one process."""

    name: str
    workload: str
    rows: int
    base: Path
    effort: Effort
    piece_size: int | None = None
    compression: str | None = None
    seed: int = 7
    data: workloads.Rows = field(init=False)
    reference: NumpyColumns = field(init=False)
    store: Any = field(init=False)
    is_open: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.data = {}
        self.reference = stores.reference(self.base, self.workload)
        self.store = stores.make(
            self.name, self.base, self.workload, self.piece_size, self.compression
        )

    @property
    def is_syncing(self) -> bool:
        """Whether a flush of the store waits for the disk."""
        return self.name == "ours"

    def generate(self) -> None:
        """Makes the rows."""
        self.data = workloads.make(self.workload, self.rows)

    def rng(self, scenario: str) -> np.random.Generator:
        """Random numbers of a scenario: the same for every store."""
        return np.random.default_rng([self.seed, ord(scenario)])

    def open(self) -> None:
        """Opens both, checks that they agree, and reads everything once."""
        if self.is_open:
            return
        self.reference.open()
        self.store.open()
        self.is_open = True
        self.warm()
        index = self.rng("?").integers(0, self.rows, 256)
        expected = workloads.batch(self.data, index)
        for store in (self.reference, self.store):
            found = store.get(index)
            for name, values in expected.items():
                if not np.array_equal(found[name], values):
                    raise AssertionError(f"{store}: column {name!r} is not what was written")

    def warm(self) -> None:
        """Reads every row of both once."""
        for start in range(0, self.rows, 4096):
            part = slice(start, min(start + 4096, self.rows))
            self.reference.get(part)
            self.store.get(part)

    def close(self) -> None:
        """Closes both."""
        if self.is_open:
            self.reference.close()
            self.store.close()
            self.is_open = False

    def probe(self, what: str, store: str | None = None) -> dict[str, Any]:
        """Runs a probe of `probes.py` in a fresh process."""
        command = [sys.executable, str(RUN), "--probe", what, "--base", str(self.base)]
        command += ["--store", store or self.name, "--workload", self.workload]
        command += ["--rows", str(self.rows)]
        if self.piece_size is not None:
            command += ["--piece-size", str(self.piece_size)]
        if self.compression is not None:
            command += ["--compression", self.compression]
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
        return result
