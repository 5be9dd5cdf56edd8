"""Fails every call that changes files, in turn, while a writer works.

A child works through a `Workload`; call N gives ENOSPC, EIO, EDQUOT or EROFS, once or from then
on until the fault is lifted. The action in flight raises an `OSError` and changes nothing, or does
not notice; repeated without the fault it succeeds; in the end everything is there.

``python -m unienv_data.testing.failing DIRECTORY [EVERY] [WORKLOAD...]`` under the shim prints a
report as JSON; `report` starts it.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unienv_data.errors import StorageSpaceError
from unienv_data.testing.faults import ERRORS, Shim, run_preloaded
from unienv_data.testing.kill_points import expected_states
from unienv_data.testing.workloads import WORKLOADS, Seen, Workload

__all__ = ["FailedCalls", "fail_calls", "report"]

_ATTEMPTS = 3  # an error that the background kept is raised once, before the call starts
_RAISED = 2  # word: actions that raised


@dataclass
class FailedCalls:
    """What a run found."""

    calls: int = 0
    """Calls failed, one life each."""
    raised: int = 0
    """Actions that raised; the other failures were harmless, such as litter left."""
    faults: list[str] = field(default_factory=list)
    """One line each."""


def _check_error(error: OSError, code: int) -> None:
    assert error.errno == code, f"raised {error!r} for {os.strerror(code)}"
    if code in (ERRORS["ENOSPC"], ERRORS["EDQUOT"]):
        assert isinstance(error, StorageSpaceError), f"no typed error, but {error!r}"
        assert "free " in str(error), f"no remedy in {error}"


def _create(shim: Shim, work: Workload, root: Path, code: int, *, is_lasting: bool) -> Any:
    try:
        return work.create(root)
    except OSError as error:
        shim.disarm()
        shim.words[_RAISED] += 1
        _check_error(error, code)
        left = [str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()]
        if left and is_lasting:  # nothing could be removed either
            shutil.rmtree(root / "data")
        else:
            assert not left, f"create failed and left {left}"
        return work.create(root)


def _took_effect(work: Workload, target: Any, states: list[Seen], action: Any) -> bool:
    """After an error: whether the action is not to be repeated."""
    before, after = states
    found = work.seen(target)
    # Dropped rows are dropped, although their files are not yet.
    may = states if action[0] in ("shrink", "clear") else [before]
    assert found in may, f"{action} raised; found {found}, expected {before}, or after it {after}"
    return found == after != before


def _live(
    shim: Shim, work: Workload, root: Path, states: list[Seen], code: int, *, is_lasting: bool
) -> None:
    target = _create(shim, work, root, code, is_lasting=is_lasting)
    for number, action in enumerate(work.actions):
        after = states[number + 1]
        for attempt in range(_ATTEMPTS):
            try:
                work.run(target, action, root)
                break
            except OSError as error:
                shim.disarm()
                shim.words[_RAISED] += 1
                _check_error(error, code)
                if _took_effect(work, target, states[number : number + 2], action):
                    break
                if attempt + 1 == _ATTEMPTS:
                    raise
        if action[0] != "close":
            try:
                found = work.seen(target)
            except StorageSpaceError:  # a bank that is full needs space to read what it evicted
                shim.disarm()
                found = work.seen(target)
            assert found == after, f"after {action}: found {found}, expected {after}"
    shim.disarm()
    for read_only in (True, False):
        again = work.open(root / "data", read_only=read_only)
        found = work.seen(again)
        again.close()
        assert found == states[-1], f"opened: found {found}, expected {states[-1]}"


def fail_calls(directory: Path, *, every: int = 1, names: tuple[str, ...] = ()) -> FailedCalls:
    """Fails each call of each workload. The process must run under the shim.

    Args:
        directory: For data; must exist.
        every: Step between the calls that fail; errors and manners take turns.
        names: Workloads; all when empty.
    """
    shim, found = Shim(), FailedCalls()
    root, said = directory / "root", directory / "said"
    for work in WORKLOADS:
        if names and work.name not in names:
            continue
        states = expected_states(work, root)
        manners = itertools.cycle(
            [
                (mode, name, partial)
                for mode, partial in (("fail", False), ("fail_from", False), ("fail", True))
                for name in ERRORS
            ]
        )
        nth = 1
        while True:
            mode, name, partial = next(manners)
            code = ERRORS[name]
            root.mkdir()
            shim.words[_RAISED] = 0

            def child(
                m: str = mode,
                n: int = nth,
                c: int = code,
                p: bool = partial,
                w: Workload = work,
                s: list[Seen] = states,
            ) -> int:
                try:
                    shim.arm(m, root, nth=n, code=c, partial=p)
                    _live(shim, w, root, s, c, is_lasting=m == "fail_from")
                except Exception as error:  # noqa: BLE001 - told to the parent
                    shim.disarm()
                    said.write_text(f"{type(error).__name__}: {str(error)[:600]}")
                    return 3
                return 0

            status = shim.fork(child)
            shim.disarm()
            shutil.rmtree(root, ignore_errors=True)
            if status:
                words = said.read_text() if status == 3 << 8 else f"status {status}"
                found.faults.append(
                    f"{work.name}: call {nth} ({shim.fired}) {mode} {name} {partial}: {words}"
                )
                print(found.faults[-1], file=sys.stderr, flush=True)  # noqa: T201 - progress
            if shim.fired is None:
                break
            found.calls += 1
            found.raised += shim.words[_RAISED]
            nth += every
    return found


def report(directory: Path, *arguments: str, timeout_s: float = 280.0) -> dict[str, Any]:
    """Runs this module under the shim and gives its report.

    Raises:
        RuntimeError: It did not finish; names its output.
    """
    command = ["-m", "unienv_data.testing.failing", str(directory), *arguments]
    done = run_preloaded(command, directory, timeout_s=timeout_s)
    if done.returncode:
        raise RuntimeError(f"failing: {done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """The command."""
    warnings.simplefilter("ignore", ResourceWarning)
    every, *names = sys.argv[2:] or ["1"]
    found = fail_calls(Path(sys.argv[1]), every=int(every), names=tuple(names))
    print(json.dumps(asdict(found)))  # noqa: T201 - a command


if __name__ == "__main__":
    main()
