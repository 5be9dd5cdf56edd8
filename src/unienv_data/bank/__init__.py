"""The bank: rows as flat memory-mapped columns, a working set rebuilt from pieces at will."""
