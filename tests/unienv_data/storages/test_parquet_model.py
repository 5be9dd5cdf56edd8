"""Random actions on ParquetStorage and on the obvious storage: the rows always agree."""

from __future__ import annotations

import pytest
from hypothesis import settings

from unienv_data.testing.stateful import ParquetStorageMachine

TestParquetStorageModel = pytest.mark.slow(ParquetStorageMachine.TestCase)
TestParquetStorageModel.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)
