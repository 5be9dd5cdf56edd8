"""verify names what is wrong, repair mends it and loses no row in silence."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unienv_data
from unienv_data.errors import (
    CorruptPieceError,
    MissingPieceError,
    MissingStorageError,
    StorageLockedError,
)
from unienv_data.replay_buffer import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_data.testing.damage_cases import SPACE, Case, damage_cases
from unienv_data.testing.oracle import assert_batches_equal
from unienv_data.tools.cli import main
from unienv_data.tools.repair import repair
from unienv_data.tools.verify import verify
from unienv_interface.backends.numpy import NumpyComputeBackend as B

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return {case.name: case for case in damage_cases(tmp_path_factory.mktemp("cases") / "made")}


def put(case: Case, root: Path) -> Path:
    for name, data in case.files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def content(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def kinds(report: Any) -> list[str]:
    return [finding.kind for finding in report.findings]


def flip(path: Path) -> None:
    """Flips bits in the middle: of a piece, in its pages."""
    data = bytearray(path.read_bytes())
    at = 200 if path.suffix == ".parquet" else len(data) // 2
    for offset in range(16):
        data[at + offset] ^= 4
    path.write_bytes(bytes(data))


def rows_of(root: Path, space: Any = SPACE) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ParquetStorage.load_from(root, space) as storage:
            return storage.get(...)


def first(batch: Any, count: int) -> Any:
    return {key: values[:count] for key, values in batch.items()}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "path",
    sorted(p for p in GOLDEN.glob("*/*") if p.is_dir()),
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_golden_directories_are_clean(path: Path, full: bool) -> None:
    before = content(path)
    report = verify(path, full=full)
    # The golden values of "lone" do not keep to the bounds of their space.
    outside = 3 * ["values"] if full and path.name == "lone" and "upstream" not in str(path) else []
    assert kinds(report) == outside
    assert report.num_pieces == len(list(path.rglob("part-*.parquet")))
    assert content(path) == before


def test_public_names() -> None:
    assert unienv_data.verify is verify
    assert unienv_data.repair is repair


def test_a_flipped_page_is_found_and_cut(cases: dict[str, Case], tmp_path: Path) -> None:
    case = cases["plain-snappy"]
    root = put(case, tmp_path / "s")
    flip(root / "part-000001.parquet")
    report = verify(root, full=True)
    assert [(f.kind, f.rows) for f in report.findings] == [("damaged_piece", ((4, 8),))]
    assert report.exit_code == 1
    before = content(root)
    dry = repair(root, dry_run=True)
    assert content(root) == before
    done = repair(root)
    assert done.actions == dry.actions
    assert done.lost_rows == ((4, 11),)
    assert [a.kind for a in done.actions] == ["cut", "move", "move"]
    assert done.dropped is not None
    assert sorted(p.name for p in Path(done.dropped).iterdir()) == [
        "part-000001.parquet",
        "part-000002.parquet",
    ]
    assert (Path(done.dropped) / "part-000001.parquet").read_bytes() == before[
        "part-000001.parquet"
    ]
    assert verify(root, full=True).findings == ()
    assert_batches_equal(rows_of(root), first(case.states[0], 4))
    assert repair(root).actions == ()


def test_a_missing_piece_is_found_fast(cases: dict[str, Case], tmp_path: Path) -> None:
    root = put(cases["plain-None"], tmp_path / "s")
    (root / "part-000002.parquet").unlink()
    report = verify(root)
    assert [(f.kind, f.rows) for f in report.findings] == [("missing_piece", ((8, 11),))]


def test_rows_of_a_dead_writer_are_counted_and_sealed(
    cases: dict[str, Case], tmp_path: Path
) -> None:
    case = cases["interrupted"]
    root = put(case, tmp_path / "s")
    finding = next(f for f in verify(root).findings if f.kind == "unsealed_rows")
    assert finding.rows == ((20, 21),)
    assert "1 new rows and changes in 2 pieces" in finding.found
    done = repair(root)
    assert done.actions[0].kind == "recover"
    assert done.lost_rows == ()
    assert verify(root, full=True).findings == ()
    assert_batches_equal(rows_of(root), case.states[0])


def test_a_damaged_working_set_is_set_aside(cases: dict[str, Case], tmp_path: Path) -> None:
    root = put(cases["interrupted"], tmp_path / "s")
    (root / "_work/bank/present").write_bytes(b"")
    assert "working_set" in kinds(verify(root))
    done = repair(root)
    assert done.dropped is not None
    assert (Path(done.dropped) / "_work/bank/journal").exists()
    assert verify(root, full=True).findings == ()


@pytest.mark.parametrize("name", ["committing-0", "committing-2"])
def test_an_unfinished_commit_is_finished(
    cases: dict[str, Case], name: str, tmp_path: Path
) -> None:
    root = put(cases[name], tmp_path / "s")
    assert kinds(verify(root, full=True)) == ["commit_record"]
    assert [a.kind for a in repair(root).actions] == ["commit"]
    assert verify(root, full=True).findings == ()
    assert_batches_equal(rows_of(root), cases[name].states[1])


@pytest.mark.parametrize(("name", "state"), [("committing-0", 0), ("committing-2", 1)])
def test_an_unreadable_commit_record_never_gives_a_mixture(
    cases: dict[str, Case], name: str, state: int, tmp_path: Path
) -> None:
    root = put(cases[name], tmp_path / "s")
    flip(root / "_commit.json")
    assert verify(root).exit_code != 0
    assert repair(root).lost_rows == ()
    assert verify(root, full=True).findings == ()
    assert_batches_equal(rows_of(root), cases[name].states[state])


def test_a_lost_manifest_is_made_anew(cases: dict[str, Case], tmp_path: Path) -> None:
    root = put(cases["plain-gzip"], tmp_path / "s")
    (root / "_metadata.json").write_bytes(b"\0" * 100)
    assert verify(root).exit_code == 2
    done = repair(root)
    said = next(a.what for a in done.actions if a.kind == "manifest")
    assert "11 rows, 4 a piece" in said
    assert "the space is not known" in said
    assert verify(root, full=True).findings == ()
    space = ParquetStorage.build_space_from_parquet_file(root)[2]
    assert_batches_equal(rows_of(root, space), cases["plain-gzip"].states[0])


def test_a_buffer_lends_its_space_to_a_lost_manifest(
    cases: dict[str, Case], tmp_path: Path
) -> None:
    root = put(cases["ring"], tmp_path / "s")
    (root / "storage/_metadata.json").unlink()
    done = repair(root)
    assert any("space and capacity are those of metadata.json" in a.what for a in done.actions)
    with ReplayBuffer.load_from(root, backend=B) as buffer:
        assert_batches_equal(buffer.get_at(slice(0, 5)), cases["ring"].states[0])
        assert buffer.single_space == SPACE


def test_a_ring_keeps_its_longest_run(cases: dict[str, Case], tmp_path: Path) -> None:
    # Rows 4..8 are alive, at the positions 4 0 1 2 3; piece 1 holds positions 2 and 3.
    root = put(cases["ring"], tmp_path / "s")
    flip(root / "storage/part-000001.parquet")
    done = repair(root)
    assert done.lost_rows == ((7, 9),)
    assert verify(root, full=True).findings == ()
    with ReplayBuffer.load_from(root, backend=B) as buffer:
        assert_batches_equal(buffer.get_at(slice(0, 3)), first(cases["ring"].states[0], 3))
        assert len(buffer) == 3
        assert buffer.get_segments() == [(0, 2), (2, 3)]


def test_a_bounded_storage_is_zeroed_only_on_request(
    cases: dict[str, Case], tmp_path: Path
) -> None:
    root = put(cases["bounded"], tmp_path / "s")
    flip(root / "part-000001.parquet")
    before = content(root)
    assert [a.kind for a in repair(root).actions] == ["remains"]
    assert content(root) == before
    done = repair(root, zero_damaged=True)
    assert done.lost_rows == ((4, 8),)
    assert verify(root, full=True).findings == ()
    found, wanted = rows_of(root), cases["bounded"].states[0]
    assert not found["f"][4:8].any()
    assert found["f"][8:].tobytes() == wanted["f"][8:].tobytes()
    assert repair(root).actions == ()


def test_leftovers_are_moved_and_files_of_others_stay(
    cases: dict[str, Case], tmp_path: Path
) -> None:
    root = put(cases["plain-snappy"], tmp_path / "s")
    (root / "README.md").write_text("mine")
    (root / ".part-000001.parquet.3.tmp").write_bytes(b"x")
    shutil.copy(root / "part-000000.parquet", root / "part-000003.parquet")
    report = verify(root)
    assert sorted(kinds(report)) == ["foreign_file", "leftover", "leftover"]
    repair(root)
    assert kinds(verify(root)) == ["foreign_file"]
    assert verify(root).exit_code == 0


def test_a_running_writer_is_a_note_and_is_not_repaired(tmp_path: Path) -> None:
    with ParquetStorage.create(SPACE, cache_path=tmp_path / "s", piece_size=4):
        report = verify(tmp_path / "s")
        assert kinds(report) == ["running_writer"]
        assert report.exit_code == 0
        with pytest.raises(StorageLockedError):
            repair(tmp_path / "s")
        with pytest.raises(StorageLockedError):
            repair(tmp_path / "s", dry_run=True)


def test_values_outside_the_bounds_are_found_by_full(tmp_path: Path) -> None:
    from unienv_interface.space import BoxSpace

    space = BoxSpace(B, -1.0, 1.0, np.float32, shape=(2,))
    with ParquetStorage.create(space, cache_path=tmp_path / "s") as storage:
        storage.extend_length(3)
        storage.set(slice(0, 3), np.array([[0, 0], [1, -1], [0, 7]], np.float32))
    assert verify(tmp_path / "s").findings == ()
    report = verify(tmp_path / "s", full=True)
    assert kinds(report) == ["values"]
    assert "1 rows outside, the first is row 2" in report.findings[0].found


def test_on_damage_skip_lists_the_rows_to_leave_out(cases: dict[str, Case], tmp_path: Path) -> None:
    case = cases["plain-snappy"]
    root = put(case, tmp_path / "s")
    flip(root / "part-000000.parquet")
    (root / "part-000001.parquet").unlink()
    with ParquetStorage.load_from(root, SPACE, on_damage="skip") as storage:
        assert storage.damaged_rows == [(0, 8)]
        assert_batches_equal(
            storage.get(slice(8, 11)), {key: rows[8:] for key, rows in case.states[0].items()}
        )
        with pytest.raises(CorruptPieceError, match=r"(?s)part-000000.*rows 0 to 4") as caught:
            storage.get(1)
        assert caught.value.rows == (0, 4)
        with pytest.raises(FileNotFoundError, match="part-000001"):
            storage.get(slice(4, 11))
    with pytest.raises(ValueError, match="reading only"):
        ParquetStorage.load_from(root, SPACE, on_damage="skip", read_only=False)


def test_buffers_pass_on_damage_on(cases: dict[str, Case], tmp_path: Path) -> None:
    root = put(cases["buffer"], tmp_path / "s")
    flip(root / "storage/part-000001.parquet")
    with ReplayBuffer.load_from(root, backend=B, on_damage="skip") as buffer:
        storage: Any = buffer.storage
        assert storage.damaged_rows == [(2, 4)]


def test_command_line(
    cases: dict[str, Case], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = put(cases["plain-snappy"], tmp_path / "s")
    assert main(["verify", "--full", str(root)]) == 0
    assert "clean; 11 rows in 3 pieces" in capsys.readouterr().out
    flip(root / "part-000002.parquet")
    assert main(["verify", "--full", "--json", str(root)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["findings"][0]["kind"] == "damaged_piece"
    assert report["findings"][0]["rows"] == [[8, 11]]
    assert main(["repair", "--dry-run", str(root)]) == 1
    assert "steps would be done" in capsys.readouterr().out
    assert main(["repair", "--json", str(root)]) == 1
    assert json.loads(capsys.readouterr().out)["exit_code"] == 1
    assert main(["repair", str(root)]) == 0
    assert main(["verify", "--full", str(root)]) == 0
    (root / "_metadata.json").write_text("{")
    assert main(["verify", str(root)]) == 2
    assert main(["verify", str(tmp_path / "nothing")]) == 2
    assert "MissingStorageError" in capsys.readouterr().err


def test_nothing_there(tmp_path: Path) -> None:
    for tool in (verify, repair):
        with pytest.raises(MissingStorageError):
            tool(tmp_path)


def test_a_directory_in_place_of_a_working_file_is_moved(
    cases: dict[str, Case], tmp_path: Path
) -> None:
    root = put(cases["interrupted"], tmp_path / "s")
    (root / "_work/bank_at.json").mkdir()
    done = repair(root)
    assert done.exit_code == 1
    assert done.dropped is not None
    assert (Path(done.dropped) / "_work/bank_at.json").is_dir()
    assert verify(root, full=True).findings == ()
    assert_batches_equal(rows_of(root), cases["interrupted"].states[0])


def test_a_directory_in_place_of_a_staged_piece_is_moved(
    cases: dict[str, Case], tmp_path: Path
) -> None:
    case = cases["committing-0"]
    root = put(case, tmp_path / "s")
    name = next(name for name in case.files if name.startswith(".part-000001"))
    (root / name).unlink()
    (root / name).mkdir()
    done = repair(root)
    assert done.dropped is not None
    # Both things that bore the name of the piece are kept: its old file and the directory.
    kept = Path(done.dropped) / "part-000001.parquet"
    assert kept.read_bytes() == case.files["part-000001.parquet"]
    assert kept.with_name("part-000001.parquet.2").is_dir()
    assert verify(root, full=True).findings == ()
    assert_batches_equal(rows_of(root), first(case.committed[1], 4))


def test_flush_names_a_piece_that_is_gone(cases: dict[str, Case], tmp_path: Path) -> None:
    root = put(cases["plain-snappy"], tmp_path / "s")
    storage = ParquetStorage.load_from(root, SPACE, read_only=False)
    assert storage._writer is not None
    storage._writer.committer._unsynced.add("part-000001.parquet")
    (root / "part-000001.parquet").unlink()
    with pytest.raises(MissingPieceError, match="rows 4 to 8 are lost") as caught:
        storage._writer.committer.sync_pieces()
    assert caught.value.path == str(root / "part-000001.parquet")
    (root / "part-000001.parquet").write_bytes(cases["plain-snappy"].files["part-000001.parquet"])
    storage.close()
    assert verify(root, full=True).findings == ()
