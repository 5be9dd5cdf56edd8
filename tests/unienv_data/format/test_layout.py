from __future__ import annotations

import numpy as np
import pytest

from unienv_data.format.layout import Layout, piece_name, piece_number, staged_name


def test_names() -> None:
    assert piece_name(0) == "part-000000.parquet"
    assert piece_name(1234567) == "part-1234567.parquet"
    for piece in (0, 12, 999_999, 1_000_000):
        assert piece_number(piece_name(piece)) == piece
    for name in ("part-0.parquet", "part-0000001.parquet", "x.parquet", staged_name(3, 1)):
        assert piece_number(name) is None
    assert not staged_name(3, 1).endswith(".parquet")


@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 24])
def test_uniform_layout_matches_arithmetic(size: int, rows: int) -> None:
    layout = Layout(size)
    everything = np.arange(rows)
    assert layout.count(rows) == len(set((everything // size).tolist()))
    assert layout.pieces_of(everything).tolist() == (everything // size).tolist()
    assert [layout.piece_of(row) for row in range(rows)] == (everything // size).tolist()
    covered = [row for k in range(layout.count(rows)) for row in range(*layout.bounds(k, rows))]
    assert covered == everything.tolist()


def test_uneven_layout() -> None:
    layout = Layout(5, [0, 2, 7])
    assert layout.count(9) == 3
    assert [layout.bounds(k, 9) for k in range(3)] == [(0, 2), (2, 7), (7, 9)]
    assert layout.pieces_of(np.arange(9)).tolist() == [0, 0, 1, 1, 1, 1, 1, 2, 2]
    assert list(layout.span(1, 8)) == [0, 1, 2]
    assert list(layout.span(3, 3)) == []
