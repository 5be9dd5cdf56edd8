"""Kills `repair` before and after every call that changes files, and runs it again.

Whatever instant it was killed at, the second run ends with what an undisturbed one leaves: the
same rows, `verify` clean, and every file that was taken out kept beside the data set.
``python -m unienv_data.testing.repair_kills DIRECTORY EVERY`` runs under the shim; `report`
starts it.
"""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unienv_data.replay_buffer.replay_buffer import ReplayBuffer
from unienv_data.storages._committer import read_manifest
from unienv_data.storages._opening import stored_space
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.damage_cases import Case, damage_cases
from unienv_data.testing.faults import Shim, run_preloaded
from unienv_data.testing.oracle import assert_batches_equal
from unienv_data.tools.repair import repair
from unienv_data.tools.verify import verify
from unienv_interface.backends.numpy import NumpyComputeBackend as B

__all__ = ["RepairKills", "report"]


@dataclass
class RepairKills:
    """What a run found."""

    kills: dict[str, int] = field(default_factory=dict)
    """Kills by damage."""
    faults: list[str] = field(default_factory=list)


def _cut_piece(root: Path) -> None:
    path = root / "part-000001.parquet"
    path.write_bytes(path.read_bytes()[:100])


def _cut_ring_piece(root: Path) -> None:
    path = root / "storage/part-000001.parquet"
    path.write_bytes(path.read_bytes()[:100])


def _lose_manifest(root: Path) -> None:
    (root / "_metadata.json").write_bytes(b"{")


def _nothing(root: Path) -> None:
    del root


_DAMAGES: dict[str, Callable[[Path], None]] = {
    "plain-snappy": _cut_piece,
    "plain-gzip": _lose_manifest,
    "committing-0": _nothing,
    "committing-2": _nothing,
    "interrupted": _nothing,
    "ring": _cut_ring_piece,
}


def _make(case: Case, parent: Path) -> tuple[Path, bytes | None]:
    """A damaged copy, and the damaged file that repair must keep."""
    root = parent / "set"
    for name, data in case.files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    _DAMAGES[case.name](root)
    changed = [n for n in case.files if (root / n).read_bytes() != case.files[n]]
    return root, (root / changed[0]).read_bytes() if changed else None


def _rows(case: Case, root: Path) -> Any:
    if case.is_buffer:
        with ReplayBuffer.load_from(root, backend=B) as buffer:
            return buffer.get_at(slice(0, len(buffer)))
    space: Any = stored_space(read_manifest(root)[0])  # a rebuilt manifest has another than ours
    with ParquetStorage.load_from(root, space) as storage:
        return storage.get(slice(0, len(storage)))


def _check(case: Case, root: Path, kept: bytes | None, wanted: Any) -> None:
    repair(root)
    findings = verify(root, full=True).findings
    if findings:
        raise AssertionError(f"verify finds {findings[0]}")
    assert_batches_equal(_rows(case, root), wanted)
    dropped = [path for path in root.parent.glob("set.dropped-*/**/*") if path.is_file()]
    if kept is not None and not any(path.read_bytes() == kept for path in dropped):
        raise AssertionError("the damaged file is gone")


def _kill_at_each(shim: Shim, case: Case, parent: Path, found: RepairKills, every: int) -> None:
    parent.mkdir()
    root, _ = _make(case, parent)
    repair(root)
    wanted = _rows(case, root)
    shutil.rmtree(parent)
    for mode in ("kill_before", "kill_after"):
        nth, was_killed = 1, True
        while was_killed:
            parent.mkdir()
            root, kept = _make(case, parent)

            def child(root: Path = root, mode: str = mode, nth: int = nth) -> None:
                shim.arm(mode, parent, nth=nth)
                repair(root)

            status = shim.fork(child)
            shim.disarm()
            was_killed = status == 9
            at = f"{case.name}: {mode} {nth} ({shim.fired})"
            if was_killed:
                found.kills[case.name] = found.kills.get(case.name, 0) + 1
            elif status:
                found.faults.append(f"{at}: the child ended with status {status}")
            try:
                _check(case, root, kept, wanted)
            except Exception as error:  # noqa: BLE001 - a finding
                found.faults.append(f"{at}: {type(error).__name__}: {str(error)[:300]}")
            shutil.rmtree(parent)
            nth += every


def report(directory: Path, *, every: int = 1, timeout_s: float = 280.0) -> RepairKills:
    """Runs this module under the shim, killing at every so many calls, and gives its report.

    Raises:
        RuntimeError: It did not finish; names its output.
    """
    command = ["-m", "unienv_data.testing.repair_kills", str(directory), str(every)]
    done = run_preloaded(command, directory, timeout_s=timeout_s)
    if done.returncode:
        raise RuntimeError(f"repair_kills failed: {done.stderr[-4000:]}")
    return RepairKills(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """The command."""
    warnings.simplefilter("ignore")
    directory, shim, found = Path(sys.argv[1]), Shim(), RepairKills()
    for case in damage_cases(directory / "made"):
        if case.name in _DAMAGES:
            _kill_at_each(shim, case, directory / "kills", found, int(sys.argv[2]))
    print(json.dumps(asdict(found)))  # noqa: T201 - a command


if __name__ == "__main__":
    main()
