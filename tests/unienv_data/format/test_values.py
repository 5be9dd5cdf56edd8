from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unienv_data.format.values import ValueRefusedError, cast_exactly


def cast(values: Any, source: str, target: str, *, rounding: bool = False) -> Any:
    return cast_exactly(np.array(values, dtype=source), np.dtype(target), rounding=rounding)


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        ([255, 0], "int64", "uint8"),
        ([-128, 127], "int64", "int8"),
        ([True, False], "bool", "float32"),
        ([1.0, -2.0], "float64", "int32"),
        ([2**24], "int64", "float32"),
        ([2**53], "int64", "float64"),
        ([2**62], "int64", "float64"),
        ([0.5], "float32", "float16"),
        ([2**63], "uint64", "float64"),
    ],
)
def test_values_that_fit_are_kept(values: Any, source: str, target: str) -> None:
    result = cast(values, source, target)
    assert result.dtype == np.dtype(target)
    assert result.tolist() == values


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        ([300], "int64", "uint8"),
        ([-1], "int64", "uint64"),
        ([2**63], "uint64", "int64"),
        ([np.nan], "float64", "int32"),
        ([np.inf], "float64", "int64"),
        ([2.0**63], "float64", "int64"),
        ([1.9], "float64", "int32"),
        ([1e300], "float64", "float32"),
        ([0.1], "float32", "float16"),
        ([2**53 + 1], "int64", "float64"),
        ([2**24 + 1], "int64", "float32"),
        ([2**63 - 1], "int64", "float64"),
        ([70000], "int64", "float16"),
        ([1], "int64", "bool"),
        ([1j], "complex128", "float64"),
    ],
)
def test_values_that_would_change_are_refused(values: Any, source: str, target: str) -> None:
    with pytest.raises(ValueRefusedError):
        cast(values, source, target)


def test_float64_is_rounded_to_float32_but_keeps_nan_and_infinity() -> None:
    result = cast([0.1, np.nan, np.inf], "float64", "float32")
    assert result[0] == np.float32(0.1)
    assert np.isnan(result[1])
    assert result[2] == np.inf


def test_the_other_byte_order_keeps_the_bits() -> None:
    swapped = np.array([0x7FC00123], dtype=">u4").view(">f4")
    result = cast_exactly(swapped, np.dtype("float32"), rounding=False)
    assert result.view("uint32")[0] == 0x7FC00123


def test_nothing_to_do_gives_the_same_array() -> None:
    array = np.zeros(3, np.float32)
    assert cast_exactly(array, np.dtype("float32"), rounding=False) is array
