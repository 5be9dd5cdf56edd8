"""Kills a writer before, after and in the middle of every call that changes a file, in turn.

    python -m unienv_data.testing.kill_points [STEPS] [SEED]

`crash.py` kills at random instants besides: stores into mapped memory are no system calls.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from unienv_data.testing.scenarios import BufferScenario, StorageScenario, standard_scenarios
from unienv_data.testing.shim import Fault, ShimmedForks, why_unavailable

__all__ = ["PointReport", "kill_everywhere"]

KINDS = ("before", "after", "torn")


@dataclass
class PointReport:
    """What a run found."""

    points: int = 0
    """Kills in a writer at work."""
    recoveries: int = 0
    """Kills in a writer that was recovering what a killed one had left."""
    faults: list[str] = field(default_factory=list)
    """One line each, with what repeats it."""

    def add(self, other: PointReport) -> None:
        """Adds what another run found."""
        self.points += other.points
        self.recoveries += other.recoveries
        self.faults += other.faults


def kill_everywhere(
    scenario: StorageScenario | BufferScenario,
    forks: ShimmedForks,
    directory: Path,
    *,
    stride: int = 1,
    recover_stride: int = 0,
) -> PointReport:
    """Kills a scenario's writer at its calls, and checks what each kill left.

    Args:
        scenario: Its life.
        forks: Where it lives.
        directory: Scratch space; must exist.
        stride: Every how many calls; the kinds of kill take turns when it is more than 1.
        recover_stride: Every how many of these kills the recovery is killed everywhere as well;
            0 for never.
    """
    report = PointReport()
    template = directory / "template"
    template.mkdir()
    scenario.prepare(template)
    for number, fault in enumerate(_faults(stride)):
        root = directory / "run"
        shutil.copytree(template, root)
        function, arguments = scenario.worker(root, fault)
        outcome = forks.run(function, **arguments)
        if outcome.was_killed:
            report.points += 1
            if recover_stride and number % recover_stride == 0:
                report.add(_kill_recovery(scenario, forks, directory, len(outcome.acknowledged)))
            _check(report, scenario, root, len(outcome.acknowledged), str(fault))
        elif outcome.result is not None:
            report.faults.append(f"{scenario}: {fault}: {outcome.result}")
        shutil.rmtree(root)
        if not outcome.was_killed and fault.kind != "torn":
            break  # the life has fewer calls than this
    shutil.rmtree(template)
    return report


def _faults(stride: int) -> Iterable[Fault]:
    at = 1
    while True:
        if stride == 1:
            yield from (Fault(kind, at) for kind in reversed(KINDS))
        else:
            yield Fault(KINDS[at // stride % 3], at)
        at += stride


def _kill_recovery(
    scenario: StorageScenario | BufferScenario, forks: ShimmedForks, directory: Path, done: int
) -> PointReport:
    """Kills whoever opens what a kill left, at every call, and checks again."""
    report = PointReport()
    left = directory / "run"
    for fault in _faults(1):
        root = directory / "again"
        shutil.copytree(left, root)
        function, arguments = scenario.opener(root, fault)
        outcome = forks.run(function, **arguments)
        if outcome.was_killed:
            report.recoveries += 1
        elif outcome.result is not None:
            report.faults.append(f"{scenario}: recovery: {fault}: {outcome.result}")
        _check(report, scenario, root, done, f"{done} actions, then recovery: {fault}")
        shutil.rmtree(root)
        if not outcome.was_killed and fault.kind != "torn":
            break
    return report


def _check(
    report: PointReport,
    scenario: StorageScenario | BufferScenario,
    root: Path,
    done: int,
    where: str,
) -> None:
    try:
        scenario.check(root, done)
    except Exception as error:  # noqa: BLE001 - reported with what repeats it
        flying = scenario.actions[done] if done < len(scenario.actions) else ["close"]
        report.faults.append(f"{scenario}: {where}, in {flying}: {type(error).__name__}: {error}")


def main() -> None:
    """Kills the standard scenarios everywhere and prints what it found."""
    reason = why_unavailable()
    if reason is not None:
        raise SystemExit(reason)
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    total = PointReport()
    with tempfile.TemporaryDirectory(prefix="unienv-kill-") as name:
        library, scratch = Path(name, "shim"), Path(name, "scratch")
        library.mkdir()
        scratch.mkdir()
        with ShimmedForks(library) as forks:
            for scenario in standard_scenarios(steps, seed):
                report = kill_everywhere(scenario, forks, scratch, recover_stride=40)
                print(  # noqa: T201 - a command
                    f"{scenario}: {report.points} kills at work, {report.recoveries} in recovery, "
                    f"{len(report.faults)} faults",
                    flush=True,
                )
                total.add(report)
    for fault in total.faults:
        print(fault)  # noqa: T201 - a command
    print(f"{total.points + total.recoveries} kill points, {len(total.faults)} faults")  # noqa: T201
    raise SystemExit(bool(total.faults))


if __name__ == "__main__":
    main()
