"""Parquet files as other programs write them: no checksums, no identity."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

__all__ = ["write_plain"]


def write_plain(path: Path) -> None:
    """Writes a file anew, without page checksums and without our metadata."""
    table = pq.read_table(path, use_threads=False, memory_map=False)
    pq.write_table(table.replace_schema_metadata(None), path)
