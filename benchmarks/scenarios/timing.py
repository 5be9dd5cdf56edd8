"""Ratios that can be trusted a little on a shared machine: reference and subject take turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def seconds(action: Callable[[], Any]) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def compare(
    reference: Callable[[], Any], subject: Callable[[], Any], repeats: int
) -> dict[str, Any]:
    """Times both in turn.

    Returns:
        ``ratio``: median of reference time over subject time, higher is better; its lowest and
        highest; and both best times in seconds.
    """
    pairs = [(seconds(reference), seconds(subject)) for _ in range(repeats)]
    ratios = [mine / theirs for mine, theirs in pairs]
    return {
        "ratio": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "reference_s": min(mine for mine, _ in pairs),
        "subject_s": min(theirs for _, theirs in pairs),
        "repeats": repeats,
    }
