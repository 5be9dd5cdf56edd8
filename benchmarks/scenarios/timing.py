"""Ratios that can be trusted a little on a shared machine: reference and subject take turns.

A turn times both, one right after the other, so that what the machine's other users do meets both;
who goes first changes every turn. The figure is the median of the turns' ratios.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Result = dict[str, Any]

REFERENCE_CALLS = 64
"""Calls of the reference in a turn at least, where a slow subject gets fewer."""


@dataclass(frozen=True)
class Session:
    """One run of writing: calls of `put`, a `flush`, and a `close` that is not in the figure."""

    put: Callable[..., Any]
    flush: Callable[[], Any]
    close: Callable[[], Any]


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes:
        turns: Turns of a scenario that reads.
        runs: Turns of one that writes, each a whole run.
        budget_s: Seconds that the subject may take for all of them. A slower one does fewer calls
            a turn, and its figure is a call's, times the calls.
    """

    turns: int = 15
    runs: int = 3
    budget_s: float = 8.0


def seconds(action: Callable[[], Any]) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def settle() -> None:
    """Collects garbage and leaves the rows made so far out of later collections."""
    gc.collect()
    gc.freeze()


def summary(reference: Sequence[float], subject: Sequence[float], **facts: Any) -> Result:
    """Ratios and times of the turns.

    Args:
        reference: Seconds of the reference, a turn each.
        subject: Seconds of the subject, in the same turns.
        **facts: Added as they are.
    """
    ratios = [one / other for one, other in zip(reference, subject, strict=True)]
    return {
        "ratio": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "best": min(reference) / min(subject),
        "ratios": ratios,
        "reference_s": statistics.median(reference),
        "subject_s": statistics.median(subject),
        "subject_best_s": min(subject),
        **facts,
    }


def compare_reads(
    reference: Callable[[Any], Any],
    subject: Callable[[Any], Any],
    items: Sequence[Any],
    effort: Effort,
) -> Result:
    """Times the same calls of both, in turns.

    Returns:
        `summary` in seconds a call; `calls` a turn and `of` how many the scenario has.
    """

    def per_call(action: Callable[[Any], Any], chosen: Sequence[Any]) -> float:
        started = time.perf_counter()
        for item in chosen:
            action(item)
        return (time.perf_counter() - started) / len(chosen)

    settle()
    probe = max(per_call(subject, items[:1]), per_call(subject, items[1:2] or items[:1]), 1e-9)
    calls = max(1, min(len(items), int(effort.budget_s / effort.turns / probe)))
    reference_calls = min(len(items), max(calls, REFERENCE_CALLS))
    theirs, ours = [], []
    for turn in range(effort.turns):
        start = turn * calls % max(1, len(items) - calls + 1)
        mine = items[start : start + calls]
        start = turn * reference_calls % max(1, len(items) - reference_calls + 1)
        others = items[start : start + reference_calls]
        if turn % 2:
            ours.append(per_call(subject, mine))
            theirs.append(per_call(reference, others))
        else:
            theirs.append(per_call(reference, others))
            ours.append(per_call(subject, mine))
    return summary(theirs, ours, calls=calls, of=len(items))


def run_session(
    make: Callable[[], Session], items: Sequence[tuple[Any, ...]], limit_s: float
) -> tuple[float, float, int]:
    """One run of writing, from an empty queue of writes.

    What others left unwritten is written before the clock starts: a store that syncs would
    otherwise pay for them.

    Returns:
        Seconds of all puts, extrapolated when the limit ended them; of the flush; puts done.
    """
    session = make()
    os.sync()
    done = 0
    started = time.perf_counter()
    for item in items:
        session.put(*item)
        done += 1
        if time.perf_counter() - started > limit_s:
            break
    put_s = (time.perf_counter() - started) / max(done, 1) * len(items)
    flush_s = seconds(session.flush)
    session.close()
    return put_s, flush_s, done


def compare_writes(
    references: Mapping[str, Callable[[], Session]],
    subject: Callable[[], Session],
    items: Sequence[tuple[Any, ...]],
    effort: Effort,
) -> Result:
    """Times whole runs of writing, in turns.

    Runs are never mixed, since a store may work on behind the caller's back.

    Args:
        references: The reference by the name ""; others by name, for ``ratio_<name>``.
        subject: Begins a run of the store.
        items: Arguments of `put`.
        effort: How long.

    Returns:
        `summary` in seconds a run with flush; `put_s` and `flush_s` of the subject; `calls` done
        and `of` how many.
    """
    theirs: dict[str, list[float]] = {name: [] for name in references}
    ours: list[tuple[float, float, int]] = []
    settle()
    started = time.perf_counter()

    def run_references() -> None:
        for name, make in references.items():
            put_s, flush_s, _ = run_session(make, items, effort.budget_s)
            theirs[name].append(put_s + flush_s)

    for turn in range(effort.runs):
        if turn and (time.perf_counter() - started) * (turn + 1) / turn > 4 * effort.budget_s:
            break
        if turn % 2 == 0:
            run_references()
        ours.append(run_session(subject, items, effort.budget_s))
        if turn % 2:
            run_references()
    totals = [put_s + flush_s for put_s, flush_s, _ in ours]
    others = {
        f"ratio_{name}": statistics.median(
            one / total for one, total in zip(times, totals, strict=True)
        )
        for name, times in theirs.items()
        if name
    }
    return summary(
        theirs[""],
        totals,
        put_s=statistics.median(put_s for put_s, _, _ in ours),
        flush_s=statistics.median(flush_s for _, flush_s, _ in ours),
        calls=min(done for _, _, done in ours),
        of=len(items),
        **others,
    )
