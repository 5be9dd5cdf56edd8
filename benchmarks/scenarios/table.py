"""The scenarios by letter; `report.py` has their titles."""

from __future__ import annotations

from collections.abc import Callable

from scenarios import opening, reading, writing
from scenarios.bench import Bench
from scenarios.timing import Result

SCENARIOS: dict[str, Callable[[Bench], Result]] = {
    "a": writing.a_bulk_write,
    "b": writing.b_append,
    "c": opening.c_open,
    "d": reading.d_random,
    "e": reading.e_windows,
    "f": reading.f_epoch,
    "g": reading.g_scan,
    "h": reading.h_column,
    "i": writing.i_overwrite,
    "j": reading.j_one_row,
}
ORDER = "acdefghjbi"
"""Those that read come after the one that writes what they read, those that change it last."""
