"""Kills a writer before and after every call that changes files, in turn.

A child works through a `Workload`; at call N the shim kills it. The parent opens a copy of what
is left read-only, and then writable: the rows and segments are those acknowledged, plus possibly
the action in flight, whole. The opening child, which recovers, is killed at its calls as well.

``python -m unienv_data.testing.kill_points DIRECTORY [EVERY]`` under the shim prints a report as
JSON; `report` starts it.
"""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unienv_data.errors import MissingStorageError
from unienv_data.testing.faults import Shim, run_preloaded
from unienv_data.testing.workloads import WORKLOADS, Seen, Workload
from unienv_data.tools.verify import verify

__all__ = ["KillPoints", "check_killed", "expected_states", "report"]

_BEGUN, _DONE = 0, 1  # words: actions begun and acknowledged; `create` is the first


@dataclass
class KillPoints:
    """What a run found."""

    kills: int = 0
    recoveries: int = 0
    """Of these, kills while a killed directory was being opened."""
    by_kind: dict[str, int] = field(default_factory=dict)
    """Kills by kind of call."""
    faults: list[str] = field(default_factory=list)
    """One line each."""


def expected_states(work: Workload, root: Path) -> list[Seen]:
    """What is seen after `create` and after each action, when nobody interferes."""
    root.mkdir()
    target = work.create(root)
    states = [work.seen(target)]
    for action in work.actions:
        work.run(target, action, root)
        states.append(states[-1] if action[0] == "close" else work.seen(target))
    shutil.rmtree(root)
    return states


def _live(shim: Shim, work: Workload, root: Path) -> None:
    shim.words[_BEGUN] = 1
    target = work.create(root)
    shim.words[_DONE] = 1
    for number, action in enumerate(work.actions, 2):
        shim.words[_BEGUN] = number
        work.run(target, action, root)
        shim.words[_DONE] = number
    shim.disarm()


def _cuts(state: Seen) -> list[Seen]:
    """A full ring after it gave up its oldest rows, for ones that were still to come."""
    rows, segments = state
    return [
        (rows[count:], [(max(a - count, 0), b - count) for a, b in segments if b > count])
        for count in range(1, len(rows) + 1)
    ]


def _allowed(work: Workload, states: list[Seen], done: int, begun: int) -> list[Seen]:
    allowed = [states[max(done - 1, 0)], states[begun - 1]]
    if begun > done and begun > 1:
        kind = work.actions[begun - 2][0]
        if work.is_buffer and work.capacity and kind in ("append", "extend", "commit"):
            before = states[done - 1]
            room = work.capacity - len(before[0])
            coming = 1 if kind == "append" else len(work.actions[begun - 2][1])
            allowed += _cuts(before)[: max(coming - room, 0)]
        if kind == "clear" and work.is_buffer:
            allowed.append(([], []))
    return allowed


def _check_reader(work: Workload, path: Path, states: list[Seen], begun: int) -> None:
    """Read-only: each row is one that was there at some time, whole; never zeros."""
    reader = work.open(path, read_only=True)
    try:
        rows, segments = work.seen(reader)
    finally:
        reader.close()
    if work.is_buffer and work.capacity:
        shown = [row for state in states[:begun] for row in state[0]]
        assert set(rows) <= set(shown), f"read-only: {rows}"
    else:
        for place, row in enumerate(rows):
            ever = {state[0][place] for state in states[:begun] if len(state[0]) > place}
            assert row in ever, f"read-only: row {place} is {row}, which was only ever {ever}"
    assert all(0 <= a < b <= len(rows) for a, b in segments), f"read-only: {segments}"


def check_killed(work: Workload, root: Path, states: list[Seen], done: int, begun: int) -> None:
    """Opens what a killed writer left.

    Args:
        work: What it was doing.
        root: Where; recovered afterwards.
        states: What `expected_states` gave.
        done: Actions acknowledged, counting `create`.
        begun: Actions begun.

    Raises:
        AssertionError: What is seen is none of the allowed states.
    """
    path = root / "data"
    try:
        target = None
        _check_reader(work, path, states, begun)
        target = work.open(path, read_only=False)
    except MissingStorageError:
        assert done == 0, "there is no storage although create returned"
        return
    allowed = _allowed(work, states, done, begun)
    try:
        found = work.seen(target)
        assert found in allowed, f"found {found}, allowed {allowed}"
        target.close()
    except BaseException:
        target.close()
        raise
    # Closed cleanly: every piece decodes and the counts agree, for a reader and at the target.
    reader = work.open(path, read_only=True)
    try:
        again = work.seen(reader)
    finally:
        reader.close()
    assert again == found, f"closed with {found}, opened with {again}"
    looked = verify(path, full=True)
    assert not looked.findings, f"verify: {[str(finding) for finding in looked.findings]}"
    copy = root / "copy"
    dumps = [
        states[number - 1]
        for number in range(2, begun + 1)
        if work.actions[number - 2][:2] == ("dump", "copy")
    ]
    acknowledged = [
        number for number in range(2, done + 1) if work.actions[number - 2][:2] == ("dump", "copy")
    ]
    if dumps:
        _check_copy(work, copy, dumps, states[acknowledged[-1] - 1] if acknowledged else None)


def _check_copy(work: Workload, copy: Path, dumps: list[Seen], last: Seen | None) -> None:
    try:
        reader = work.open(copy, read_only=True)
    except (MissingStorageError, FileNotFoundError):
        assert last is None, "an acknowledged dump is gone"
        return
    try:
        found = work.seen(reader)
    finally:
        reader.close()
    allowed = dumps[-1:] if last is None else [last, dumps[-1]]
    assert found in allowed, f"copy: found {found}, allowed {allowed}"


def _trial(shim: Shim, work: Workload, root: Path, mode: str, nth: int) -> tuple[bool, str | None]:
    """One life: whether it was killed, and what is wrong with what it left."""
    root.mkdir()
    shim.words[_BEGUN] = shim.words[_DONE] = 0

    def child() -> None:
        shim.arm(mode, root, nth=nth)
        _live(shim, work, root)

    status = shim.fork(child)
    shim.disarm()
    if status != 9:
        return False, None if status == 0 else f"the child ended with status {status}"
    return True, None


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:500]}"


def _kill_at_each(
    shim: Shim, work: Workload, root: Path, found: KillPoints, every: int, recover_every: int
) -> None:
    states = expected_states(work, root)
    kinds: Counter[str] = Counter(found.by_kind)
    trials = 0
    for mode in ("kill_before", "kill_after"):
        nth = 1
        while True:
            at = f"{work.name}: {mode} {nth}"
            was_killed, fault = _trial(shim, work, root, mode, nth)
            done, begun = shim.words[_DONE], shim.words[_BEGUN]
            if fault is not None:
                found.faults.append(f"{at}: {fault}")
            if not was_killed:
                shutil.rmtree(root)
                break
            found.kills += 1
            kinds[str(shim.fired)] += 1
            at += f" ({shim.fired}, action {begun} of {len(work.actions) + 1})"
            trials += 1
            if trials % recover_every == 0 and done:
                _kill_recoveries(shim, work, root, states, (done, begun), found, at)
            try:
                check_killed(work, root, states, done, begun)
            except Exception as error:  # noqa: BLE001 - a finding
                found.faults.append(f"{at}: {_describe(error)}")
            shutil.rmtree(root, ignore_errors=True)
            nth += every
    found.by_kind = dict(kinds)


def _kill_recoveries(
    shim: Shim,
    work: Workload,
    root: Path,
    states: list[Seen],
    counts: tuple[int, int],
    found: KillPoints,
    at: str,
) -> None:
    """Opens a killed directory, killed again at every call of opening and closing."""
    second = root.with_name("again")
    nth = 1
    while True:
        shutil.copytree(root, second, symlinks=True)

        def opens(n: int = nth) -> None:
            shim.arm("kill_before" if n % 2 else "kill_after", second, nth=(n + 1) // 2)
            work.open(second / "data", read_only=False).close()
            shim.disarm()

        status = shim.fork(opens)
        shim.disarm()
        if status != 9:
            if status:
                found.faults.append(f"{at}: opening ended with status {status}")
            shutil.rmtree(second)
            return
        found.kills += 1
        found.recoveries += 1
        try:
            check_killed(work, second, states, *counts)
        except Exception as error:  # noqa: BLE001 - a finding
            found.faults.append(f"{at}, recovery {nth} ({shim.fired}): {_describe(error)}")
        shutil.rmtree(second, ignore_errors=True)
        nth += 1


def kill_points(
    directory: Path, *, every: int = 1, recover_every: int = 25, names: tuple[str, ...] = ()
) -> KillPoints:
    """Kills at each call of each workload. The process must run under the shim.

    Args:
        directory: For data; must exist.
        every: Step between kill points.
        recover_every: Every how many kills the recovery is killed everywhere too.
        names: Workloads; all when empty.
    """
    shim, found = Shim(), KillPoints()
    for work in WORKLOADS:
        if not names or work.name in names:
            _kill_at_each(shim, work, directory / "root", found, every, recover_every)
    return found


def report(directory: Path, *arguments: str, timeout_s: float = 280.0) -> dict[str, Any]:
    """Runs this module under the shim and gives its report.

    Raises:
        RuntimeError: It did not finish; names its output.
    """
    command = ["-m", "unienv_data.testing.kill_points", str(directory), *arguments]
    done = run_preloaded(command, directory, timeout_s=timeout_s)
    if done.returncode:
        raise RuntimeError(f"kill_points failed: {done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """The command."""
    warnings.simplefilter("ignore", ResourceWarning)
    every, recover_every, *names = [*sys.argv[2:], "1", "25"][: max(2, len(sys.argv) - 2)]
    found = kill_points(
        Path(sys.argv[1]), every=int(every), recover_every=int(recover_every), names=tuple(names)
    )
    print(json.dumps(asdict(found)))  # noqa: T201 - a command


if __name__ == "__main__":
    main()
