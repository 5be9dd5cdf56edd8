from __future__ import annotations

from pathlib import Path

import pytest

from unienv_data.bank.journal import BOOT, ROWS, Journal, StorageLedger


def test_counts_survive_a_reopening_of_the_same_storage_only(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "u", 5)
    assert not journal.adopted
    journal.words[ROWS] = 9
    journal.close()
    assert Journal.peek(tmp_path, "u") == 9
    assert Journal.peek(tmp_path, "v") is None
    again = Journal(tmp_path, "u", 0)
    assert again.adopted
    assert again.words[ROWS] == 9
    again.close()
    other = Journal(tmp_path, "v", 0)
    assert not other.adopted
    assert other.words[ROWS] == 0
    other.close()


def test_a_journal_of_another_boot_is_not_adopted(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "u", 5)
    journal.words[BOOT] += 1
    journal.close()
    assert Journal.peek(tmp_path, "u") is None
    again = Journal(tmp_path, "u", 2)
    assert not again.adopted
    assert again.words[ROWS] == 2
    again.close()


def test_segments_are_kept_and_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "u", 0)
    pairs = [(n, n + 1) for n in range(5000)]
    for pair in pairs:
        journal.add_segment(*pair)
    assert journal.segments() == pairs
    journal.forget_segments(before=4000)
    assert journal.segments() == pairs[4000:]
    journal.drop_segments_after(4500)
    assert journal.segments() == pairs[4000:4500]
    journal.add_segment(4500, 4700)
    journal.drop_segments_after(4600)
    assert journal.segments()[-1] == (4500, 4600)
    journal.close()
    again = Journal(tmp_path, "u", 0)
    assert again.segments() == [*pairs[4000:4500], (4500, 4600)]
    again.drop_all_segments()
    assert again.segments() == []
    again.close()


@pytest.mark.parametrize("growing", [True, False])
def test_the_ledger_is_words_of_the_journal(tmp_path: Path, growing: bool) -> None:
    journal = Journal(tmp_path, "u", 7 if growing else 0)
    ledger = StorageLedger(journal, growing=growing)
    assert (ledger.is_bound, ledger.knows_segments) == (False, False)
    ledger.reset(7, 0 if growing else 3, [(3, 5)], maintained=True)
    assert (ledger.head, ledger.tail) == (7, 0 if growing else 3)
    assert ledger.is_bound
    assert ledger.knows_segments
    assert ledger.maintained
    assert ledger.segments() == [(3, 5)]
    ledger.active_start = 6
    ledger.head = 8
    journal.close()
    again = StorageLedger(Journal(tmp_path, "u", 0), growing=growing)
    assert (again.head, again.active_start) == (8, 6)


@pytest.mark.parametrize("size", [0, 3, 95, 4095])
def test_a_cut_journal_counts_nothing(tmp_path: Path, size: int) -> None:
    Journal(tmp_path, "u", 7).close()
    assert Journal.peek(tmp_path, "u") == 7
    path = tmp_path / "journal"
    path.write_bytes(path.read_bytes()[:size])
    assert Journal.peek(tmp_path, "u") == (7 if size == 4095 else None)
