from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unienv_data.bank.heap import EXTENT_BYTES, TextHeap
from unienv_data.bank.locks import BankLocks
from unienv_data.errors import CorruptPieceError


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[BankLocks]:
    made = BankLocks(tmp_path / "lock")
    yield made
    made.close()


@pytest.fixture
def heap(tmp_path: Path, locks: BankLocks) -> Iterator[TextHeap]:
    made = TextHeap(tmp_path / "h", locks, create=True)
    yield made
    made.close()


def test_equal_texts_of_a_piece_are_stored_once(heap: TextHeap) -> None:
    codes = heap.store(3, ["a", "", "a\0", "漢", "a"])
    assert codes[0] == codes[4]
    assert codes[1] == 0
    assert len(set(codes)) == 4
    heap.forget_decoded()
    assert heap.texts(codes) == ["a", "", "a\0", "漢", "a"]
    assert [heap.text(code) for code in codes] == ["a", "", "a\0", "漢", "a"]


def test_pieces_do_not_share_extents_and_give_theirs_back(heap: TextHeap) -> None:
    first = heap.store(0, ["x" * 100])
    second = heap.store(1, ["x" * 100])
    assert first[0] // EXTENT_BYTES != second[0] // EXTENT_BYTES
    used = heap.used_bytes
    heap.free(0)
    assert heap.used_bytes == used - EXTENT_BYTES
    assert heap.texts(second) == ["x" * 100]
    assert heap.store(2, ["y"])[0] // EXTENT_BYTES == first[0] // EXTENT_BYTES


def test_texts_larger_than_an_extent(heap: TextHeap) -> None:
    texts = ["z" * (3 * EXTENT_BYTES + 1), "w" * EXTENT_BYTES, "v"]
    codes = heap.store(0, texts)
    heap.forget_decoded()
    assert heap.texts(codes) == texts
    heap.free(0)
    assert heap.used_bytes == 0


def test_a_stream_of_unique_texts_keeps_its_size(heap: TextHeap) -> None:
    largest = 0
    for round_number in range(200):
        heap.store(0, [f"{round_number}-{n}" * 20 for n in range(50)])
        heap.texts(heap.store(0, [f"{round_number}"]))
        heap.free(0)
        largest = max(largest, heap._heap.size)
    assert heap.used_bytes == 0
    assert largest == heap._heap.size == 1024 * EXTENT_BYTES


def test_another_mapping_follows_growth(tmp_path: Path, locks: BankLocks, heap: TextHeap) -> None:
    other = TextHeap(tmp_path / "h", locks, create=False)
    texts = [chr(ord("a") + n) * (EXTENT_BYTES - 4) for n in range(26)] * 1
    codes = [heap.store(piece, [text])[0] for piece, text in enumerate(texts)]
    codes += heap.store(99, ["q" * (1100 * EXTENT_BYTES)])
    assert other.texts(codes)[:26] == texts
    assert len(other.text(codes[-1])) == 1100 * EXTENT_BYTES
    other.close()


def test_many_texts_are_read_together_and_a_wrong_code_is_named(heap: TextHeap) -> None:
    texts = [f"{n}漢" * (n % 7) for n in range(100)]
    codes = heap.store(1, texts)
    for wrong in (-5, heap._heap.size - 2, heap._heap.size + 8):
        heap.forget_decoded()
        with pytest.raises(CorruptPieceError, match=f"code {wrong}"):
            heap.texts([*codes, wrong])
    heap._heap.store(codes[50], b"\xff\xff\xff\x7f")
    heap.forget_decoded()
    with pytest.raises(CorruptPieceError, match=f"the text at {codes[50]} has no end"):
        heap.texts(codes)
    heap._heap.store(codes[50], b"\x01\0\0\0\xff")
    heap.forget_decoded()
    with pytest.raises(CorruptPieceError, match=f"no text at {codes[50]}"):
        heap.texts(codes)
    heap.forget_decoded()
    assert heap.texts(codes[:50]) == texts[:50]
