"""Damages small stores in every way, and checks that no damage is ever read as data.

Each seed picks a store (see `damage_cases`), changes its files, opens the copy read-only and for
writing, and compares every row. The outcome is the right rows or an error of this library; any
other exception, a crash, a hang, a request for much memory, or a changed value is a fault, named
by its seed. Mutations run in child processes with limits on memory and time.
`python -m unienv_data.testing.damage COUNT [SEED]` runs any number of them.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unienv_data.errors import CorruptPieceError, UniEnvError
from unienv_data.format.checked import sealed
from unienv_data.replay_buffer.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.damage_cases import Case, damage_cases
from unienv_interface.backends.numpy import NumpyComputeBackend as B

__all__ = ["DamageReport", "run_damage"]

_CHUNK = 500
_CHUNK_SECONDS = 120
_MEMORY_BYTES = 3 << 30  # what the process may map beyond its start
_GREATEST_JUMP = 700 << 20  # of resident memory, by one mutation

_HOSTILE: tuple[Any, ...] = (
    -1, 0, 1, 7, 2**31, 2**53, 2**62, 2**63, 10**18, 10**400, 1.5, 1e308, True, None, "", "x", [],
    [1], {}, {"a": 1}, float("nan"), float("inf"), "Infinity", [[[[]]]], "\0", "../..", "\ud800",
)  # fmt: skip


@dataclass
class DamageReport:
    """What a run found."""

    mutations: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    """How often each way of opening ended how: ``"read: right"``, ``"write: ManifestError"``..."""
    faults: list[str] = field(default_factory=list)
    """One line each, with the seed that repeats it."""
    unprotected: list[str] = field(default_factory=list)
    """Other data where no checksum can tell, one line each, with the seed that repeats it."""


# -- mutations -------------------------------------------------------------------------------


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _block(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    length = min(rng.choice([1, 4, 64, 512, 4096]), len(data) - start)
    fill = rng.choice([bytes(length), b"\xff" * length, rng.randbytes(length)])
    return data[:start] + fill + data[start + length :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + rng.randbytes(rng.choice([1, 4, 4096])) + data[start:]


def _delete(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.choice([1, 4, 64]) :]


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[
        : rng.choice([0, 1, len(data) // 2, max(len(data) - 1, 0), rng.randrange(len(data))])
    ]


def _varint(value: int) -> bytes:
    value = value << 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _bomb(data: bytes, rng: random.Random) -> bytes:
    """A page header, or a number of the footer, that claims two gigabytes."""
    huge = _varint(rng.choice([2**31 - 1, 2**30, 2**31 - 9]))
    places = [at for at in range(4, len(data) - 8) if data[at] in (0x15, 0x16)]
    at = 6 if rng.random() < 0.3 else rng.choice(places or [6])
    end = at + 1
    while end < len(data) - 1 and data[end] & 128:
        end += 1
    return data[: at + 1] + huge + data[end + 1 :]


def _json(data: bytes, rng: random.Random, *, seal: bool) -> bytes:
    """Another value, a missing, doubled or deeply nested key."""
    try:
        tree = json.loads(data)
    except ValueError:
        return _flip(data, rng)
    if not isinstance(tree, dict):
        return json.dumps(rng.choice(_HOSTILE[:-1])).encode()
    node: Any = tree
    while True:
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        child = node[key]
        if isinstance(child, (dict, list)) and child and rng.random() < 0.7:
            node = child
            continue
        break
    kind = rng.random()
    if kind < 0.7:
        node[key] = rng.choice(_HOSTILE)
    elif kind < 0.85:
        del node[key]
    elif kind < 0.92:
        text = json.dumps(tree)
        return (text[:-1] + f', "num_rows": {rng.choice([3, 10**18])}}}').encode()
    else:
        depth = rng.choice([50, 5000, 200_000])
        return (
            json.dumps(tree)
            .replace("{", '{"deep": ' + "[" * depth + "]" * depth + ", ", 1)
            .encode()
        )
    if seal:
        tree = sealed(tree)
    return json.dumps(tree).encode()


_BYTES = {"flip": _flip, "block": _block, "insert": _insert, "delete": _delete, "cut": _cut}


@dataclass(frozen=True)
class _Mutation:
    label: str
    name: str
    is_hostile: bool = False
    """Made with knowledge of the checksums: no crash and no foreign error is all that is asked."""


def _mutate_cache(root: Path, case: Case, rng: random.Random) -> _Mutation:
    """Damages the bank of readers that a first reader left."""
    _open(root, case, read_only=True, recovered=False)
    files = [path for path in sorted((root / "cache").rglob("*")) if path.is_file()]
    path = rng.choice([path for path in files if path.name not in ("users", "lock")])
    kind = rng.choice(["missing", "empty", "cut", "cut", "flip"])
    data = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "flip":
        path.write_bytes(_flip(data[:65536], rng) + data[65536:])
    else:
        path.write_bytes(b"" if kind == "empty" else data[: rng.randrange(min(len(data), 8192))])
    return _Mutation(f"{kind} cache/{path.name}", f"cache/{path.name}")


def _mutate(root: Path, case: Case, cases: Sequence[Case], rng: random.Random) -> _Mutation:
    if not case.is_buffer and rng.random() < 0.05:
        return _mutate_cache(root, case, rng)
    names = sorted(case.files)
    group = rng.choice(sorted({_group(name) for name in names}))
    name = rng.choice([each for each in names if _group(each) == group])
    path, data = root / name, case.files[name]
    kinds = ["flip"] * 4 + [
        "block",
        "insert",
        "delete",
        "cut",
        "cut",
        "missing",
        "swap",
        "foreign",
        "folder",
    ]
    if name.endswith(".json"):
        kinds += ["json", "json", "json", "hostile", "hostile", "hostile"]
    if name.endswith((".parquet", ".tmp")):
        kinds += ["bomb", "bomb"]
    kind = rng.choice(kinds)
    if kind in _BYTES:
        path.write_bytes(_BYTES[kind](data, rng) if data else rng.randbytes(9))
    elif kind == "bomb":
        path.write_bytes(_bomb(data, rng))
    elif kind in ("json", "hostile"):
        path.write_bytes(_json(data, rng, seal=kind == "hostile"))
    elif kind == "missing":
        path.unlink()
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    elif kind == "swap":
        other = rng.choice([each for each in names if each != name])
        path.write_bytes(case.files[other])
        (root / other).write_bytes(data)
        return _Mutation(f"swap {name} {other}", name, _group(other) == "bank" or group == "bank")
    else:
        donor = rng.choice([each for each in cases if each.name != case.name])
        alike = [each for each in donor.files if each.endswith(Path(name).suffix)]
        path.write_bytes(donor.files[rng.choice(sorted(alike or donor.files))])
    return _Mutation(f"{kind} {name}", name, kind == "hostile")


def _group(name: str) -> str:
    """Files of one kind are drawn as one, however many there are."""
    if "/bank/" in name or name.startswith("cache/"):
        return "bank"
    return "piece" if ".parquet" in name else name


# -- checks ----------------------------------------------------------------------------------


class _SilentChangeError(Exception):
    """Data that is not what was written."""


def _same(found: Any, wanted: Any) -> bool:
    if set(found) != set(wanted):
        return False  # a space that was changed shows other columns
    for key, values in wanted.items():
        mine = found[key]
        if len(mine) != len(values):
            return False
        if values.dtype == object:
            if list(mine) != list(values):
                return False
        elif mine.dtype != values.dtype or mine.tobytes() != values.tobytes():
            return False
    return True


def _check_rows(read: Any, length: int, states: Sequence[Mapping[str, Any]]) -> str:
    """Reads all rows, or else each alone; every one must be right."""
    fitting = [state for state in states if len(next(iter(state.values()))) == length]
    if not fitting:
        return _check_unreadable(read, length)
    try:
        found = read(slice(0, length))
    except UniEnvError as error:
        for row in range(length):
            try:
                one = {
                    key: np.asarray(value)[None]
                    if not isinstance(value, str)
                    else np.array([value], object)
                    for key, value in read(row).items()
                }
            except UniEnvError:
                continue
            if not any(_same(one, {k: v[row : row + 1] for k, v in s.items()}) for s in fitting):
                raise _SilentChangeError(
                    f"row {row} differs, beside {type(error).__name__}"
                ) from None
        return _named(error)
    if not any(_same(found, state) for state in fitting):
        raise _SilentChangeError("values differ")
    return "right"


def _check_unreadable(read: Any, length: int) -> str:
    """A store that shows another number of rows: none of them may be readable."""
    outcome = ""
    for row in range(min(length, 100)):
        try:
            read(row)
        except UniEnvError as error:
            outcome = _named(error)
        else:
            break
    if not outcome or row + 1 < min(length, 100):
        raise _SilentChangeError(f"{length} rows")
    return outcome


def _named(error: UniEnvError) -> str:
    text = str(error)
    if not any(mark in text for mark in ("/", "part-", ".json")):
        raise _SilentChangeError(f"the error names no file: {text!r:.120}") from error
    if isinstance(error, CorruptPieceError) and not any(c.isdigit() for c in text):
        raise _SilentChangeError(f"the error names no rows: {text!r:.120}") from error
    return type(error).__name__


def _open(root: Path, case: Case, *, read_only: bool, recovered: bool) -> str:
    options: Any = {"cache_dir": root / "cache"}
    store: Any
    try:
        if case.is_buffer:
            store = ReplayBuffer.load_from(root, backend=B, read_only=read_only, **options)
        else:
            store = ParquetStorage.load_from(root, case.space, read_only=read_only, **options)
    except UniEnvError as error:
        return _named(error)
    try:
        states = [*case.committed, *case.states] if recovered else case.states
        if read_only and not recovered:
            states = case.committed
        read = store.get_at if case.is_buffer else store.get
        outcome = _check_rows(read, len(store), states)
        if case.segments is not None and outcome == "right":
            _check_segments(store.get_segments(), case.segments)
    except BaseException:
        _let_go(store, case)
        raise
    if read_only:
        store.close()
        return outcome
    try:
        store.close()
    except UniEnvError as error:
        _let_go(store, case)
        return f"{outcome}, close {_named(error)}"
    return outcome


def _check_segments(found: Any, expected: list[tuple[int, int]]) -> None:
    if found != expected:
        raise _SilentChangeError(f"segments {found}, expected {expected}")


def _let_go(store: Any, case: Case) -> None:
    storage = store.storage if case.is_buffer else store
    try:
        storage._let_go(remove=False)
    except (UniEnvError, OSError, ValueError, BufferError, AttributeError):
        return


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


@dataclass
class _Result:
    """How one mutation ended."""

    label: str
    ends: list[str] = field(default_factory=list)
    """One for each way of opening."""
    unprotected: list[str] = field(default_factory=list)
    fault: str | None = None


def check_one(seed: int, root: Path, cases: Sequence[Case]) -> _Result:
    """Runs one mutation and opens what is left in three ways, up to the first fault."""
    rng = random.Random(seed)
    case = rng.choice(cases)
    shutil.rmtree(root, ignore_errors=True)
    for name, data in case.files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    mutation = _mutate(root, case, cases, rng)
    lenient = (
        mutation.is_hostile
        or not case.is_checked
        or (
            # Values in the working set are those of memory: only its structure is checked.
            _group(mutation.name) == "bank"
            and mutation.label.split()[0]
            in ("flip", "block", "insert", "delete", "foreign", "swap")
        )
    )
    before = _resident()
    result = _Result(mutation.label)
    for how, read_only in (("read", True), ("write", False), ("again", True)):
        place = f"{case.name}: {mutation.label}: {how}"
        try:
            end = _open(root, case, read_only=read_only, recovered=how == "again")
        except _SilentChangeError as error:
            if not lenient:
                result.fault = f"{place}: {error}"
                return result
            result.unprotected.append(f"{place}: {error}")
            end = "other data, unprotected"
        except Exception as error:  # noqa: BLE001 - any other exception is what is looked for
            where = traceback.extract_tb(error.__traceback__)[-1]
            result.fault = (
                f"{place}: {type(error).__name__}: {error!s:.150} "
                f"at {Path(where.filename).name}:{where.lineno}"
            )
            return result
        result.ends.append(f"{how}: {end}")
    grown = _resident() - before
    if grown > _GREATEST_JUMP:
        result.fault = f"{case.name}: {mutation.label}: {grown >> 20} MiB of memory"
    return result


# -- running ---------------------------------------------------------------------------------


def _chunk(first: int, count: int, directory: Path) -> None:
    """The child: one JSON line before and one after each mutation."""
    warnings.simplefilter("ignore")
    cases = damage_cases(directory / "made")
    size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = size * resource.getpagesize() + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for seed in range(first, first + count):
        print(json.dumps({"begin": seed}), flush=True)  # noqa: T201 - for the parent
        signal.alarm(20)  # SIGALRM ends a hang at the seed that has it
        result = check_one(seed, directory / "store", cases)
        signal.alarm(0)
        print(json.dumps({"end": seed, **asdict(result)}), flush=True)  # noqa: T201 - for the parent


def run_damage(count: int, seed: int, directory: Path) -> DamageReport:
    """Runs mutations ``seed`` to ``seed + count`` in child processes.

    Args:
        count: How many.
        seed: The first.
        directory: For scratch files; must exist.
    """
    report = DamageReport()
    first, stop = seed, seed + count
    while first < stop:
        size = min(_CHUNK, stop - first)
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            command = [
                sys.executable,
                "-m",
                __spec_name__,
                "--chunk",
                str(first),
                str(size),
                scratch,
            ]
            try:
                done = subprocess.run(
                    command, capture_output=True, timeout=_CHUNK_SECONDS,
                    check=False, env={**os.environ, "PYTHONFAULTHANDLER": "1"},
                )  # fmt: skip
                output, code, errors = done.stdout, done.returncode, done.stderr[-1500:]
            except subprocess.TimeoutExpired as error:
                output, code, errors = error.stdout or b"", -signal.SIGALRM, b"time limit"
        begun = None
        for line in output.splitlines():
            entry = json.loads(line)
            if "begin" in entry:
                begun = entry["begin"]
                continue
            begun, first = None, entry["end"] + 1
            report.mutations += 1
            report.outcomes.update(entry["ends"])
            if entry["fault"]:
                report.faults.append(f"seed {entry['end']}: {entry['fault']}")
            report.unprotected += [f"seed {entry['end']}: {each}" for each in entry["unprotected"]]
        if code != 0:
            if begun is None:
                raise RuntimeError(f"the child failed outside a mutation: {errors.decode()}")
            report.mutations += 1
            report.faults.append(f"seed {begun}: the process ended with {code}: {errors!r}")
            first = begun + 1
    return report


__spec_name__ = "unienv_data.testing.damage"


def main() -> None:
    """Runs as many as asked and prints what it found."""
    if sys.argv[1:2] == ["--chunk"]:
        _chunk(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory(prefix="unienv-damage-") as directory:
        report = run_damage(count, seed, Path(directory))
    print(f"{report.mutations} mutations, {len(report.faults)} faults")  # noqa: T201 - a command
    for outcome, times in sorted(report.outcomes.items(), key=lambda pair: -pair[1]):
        print(f"{times:7} {outcome}")  # noqa: T201 - a command
    # Names and values may hold what no terminal can print, as a lone surrogate.
    for line in report.unprotected:
        print("unprotected:", ascii(line))  # noqa: T201 - a command
    for line in report.faults:
        print("fault:", ascii(line))  # noqa: T201 - a command
    raise SystemExit(bool(report.faults))


if __name__ == "__main__":
    main()
