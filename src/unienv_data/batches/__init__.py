"""Views and combinations of batches."""

from __future__ import annotations

from unienv_data.base.views import SubIndexedBatch, SubItemBatch

__all__ = ["SubIndexedBatch", "SubItemBatch"]
