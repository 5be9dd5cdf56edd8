"""Windows of consecutive samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unienv_data.base.batch import BatchBase, BatchT
from unienv_data.batches.slicestack_batch import SliceStackedBatch
from unienv_data.errors import StorageArgumentError
from unienv_interface.backends import BArrayType, BDeviceType, BDtypeType, BRNGType

__all__ = ["FrameStackedBatch"]


class FrameStackedBatch(SliceStackedBatch[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """Each sample with the ones just before and just after it; see `SliceStackedBatch`."""

    def __init__(
        self,
        batch: BatchBase[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType],
        prefetch_horizon: int = 0,
        postfetch_horizon: int = 0,
        get_valid_mask_function: Callable[..., Any] | None = None,
        fill_invalid_data: bool = True,
        stack_metadata: bool = False,
    ) -> None:
        """Chooses the frames.

        Args:
            batch: Where they come from.
            prefetch_horizon: Samples before.
            postfetch_horizon: Samples after.
            get_valid_mask_function: See `SliceStackedBatch`.
            fill_invalid_data: See `SliceStackedBatch`.
            stack_metadata: See `SliceStackedBatch`.

        Raises:
            StorageArgumentError: A horizon is negative, or both are 0.
        """
        horizons = prefetch_horizon, postfetch_horizon
        if min(horizons) < 0 or max(horizons) == 0:
            raise StorageArgumentError(
                "FrameStackedBatch: prefetch_horizon and postfetch_horizon should not be "
                f"negative, and one of them positive, got {prefetch_horizon} and "
                f"{postfetch_horizon}",
                found=horizons,
            )
        super().__init__(
            batch,
            np.arange(-prefetch_horizon, postfetch_horizon + 1, dtype=np.int64),
            get_valid_mask_function,
            fill_invalid_data,
            stack_metadata,
        )
        self.prefetch_horizon = prefetch_horizon
        self.postfetch_horizon = postfetch_horizon
