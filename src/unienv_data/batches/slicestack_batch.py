"""Windows: each sample with its neighbours, stacked along a time axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from unienv_data.base.batch import BatchBase, BatchT, is_single
from unienv_data.base.indexing import RowArray, normalize
from unienv_data.base.views import as_numpy_index
from unienv_data.errors import StorageArgumentError
from unienv_interface.backends import BArrayType, BDeviceType, BDtypeType, BRNGType
from unienv_interface.space import BinarySpace, DictSpace
from unienv_interface.space.space_utils import batch_utils as sbu
from unienv_interface.space.space_utils import flatten_utils as sfu

__all__ = ["SliceStackedBatch"]

MASK = "slice_valid_mask"
Mask = NDArray[np.bool_]


class SliceStackedBatch(BatchBase[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType]):
    """Sample i is the stack of the samples ``i + offset``; read-only.

    Samples gain a leading axis of ``T = len(fixed_offset)`` frames, flat ones too: shape
    ``(T, flat_dim)`` or ``(B, T, flat_dim)``. Metadata gain ``slice_valid_mask``, shape ``(T,)``:
    frames before the first sample, after the last one, or refused by the mask function are not
    valid, and hold the nearest valid frame on the way to the sample itself.

    Attributes:
        batch: Where frames come from.
        fixed_offset: The offsets, a backend array.
    """

    is_mutable = False

    def __init__(
        self,
        batch: BatchBase[BatchT, BArrayType, BDeviceType, BDtypeType, BRNGType],
        fixed_offset: Any,
        get_valid_mask_function: Callable[..., Any] | None = None,
        fill_invalid_data: bool = True,
        stack_metadata: bool = False,
    ) -> None:
        """Chooses the frames.

        Args:
            batch: Where they come from.
            fixed_offset: Their offsets: sorted integers, 0 among them.
            get_valid_mask_function: Called with this batch, the positions of frames (shape
                ``(B, T)``, backend array), their data and their metadata (both with two leading
                axes); gives the mask of those that belong to the window. None keeps all.
            fill_invalid_data: Put the nearest valid frame in the place of invalid ones; otherwise
                those refused by the function stay as they are.
            stack_metadata: Give the metadata of every frame; otherwise those of the sample itself.

        Raises:
            StorageArgumentError: The offsets are not such.
        """
        offsets = as_numpy_index(batch.backend, fixed_offset)
        offsets = _checked(np.asarray(offsets))
        count = len(offsets)
        metadata_space: Any = batch.single_metadata_space
        children: list[tuple[str, Any]] = []
        if metadata_space is not None:
            if stack_metadata:
                metadata_space = sbu.batch_space(metadata_space, count)
            children = list(metadata_space.spaces.items())
        mask_space: Any = BinarySpace(batch.backend, (count,), device=batch.device)
        super().__init__(
            sbu.batch_space(batch.single_space, count),
            DictSpace(batch.backend, [*children, (MASK, mask_space)], batch.device),
        )
        self.batch = batch
        self._offsets = offsets
        self.fixed_offset = self._to_backend(offsets)
        self.get_valid_mask_function = get_valid_mask_function
        self.fill_invalid_data = fill_invalid_data
        self.stack_metadata = stack_metadata
        self._anchor = int(np.flatnonzero(offsets == 0)[0])

    @override
    def __len__(self) -> int:
        return len(self.batch)

    # -- which frames ------------------------------------------------------------------------

    def _frames(self, idx: Any) -> tuple[RowArray, Mask, bool]:
        """Positions of frames, those inside, and whether one sample was asked for."""
        length = len(self)
        rows = normalize(as_numpy_index(self.backend, idx), length, "the windows")
        single = isinstance(rows, int)
        if isinstance(rows, slice):
            rows = np.arange(rows.start, rows.stop, dtype=np.int64)
        frames = np.atleast_1d(np.asarray(rows, dtype=np.int64))[:, None] + self._offsets
        inside = (frames >= 0) & (frames < length)
        return np.clip(frames, 0, max(0, length - 1)), inside, single

    def expand_index(self, index: Any) -> Any:
        """Positions of the frames of samples, shape ``(B, T)``; those outside are clamped."""
        return self._to_backend(self._frames(index)[0])

    def get_valid_mask(self, expanded_idx: Any, data: Any, metadata: Any) -> Any:
        """Mask of the frames that belong to their windows, shape ``(B, T)``.

        Args:
            expanded_idx: Positions of the frames, shape ``(B, T)``.
            data: The frames, with two leading axes.
            metadata: Their metadata, with two leading axes; empty when there are none.
        """
        if self.get_valid_mask_function is None:
            return self._to_backend(np.ones(tuple(expanded_idx.shape), dtype=np.bool_))
        return self.get_valid_mask_function(self, expanded_idx, data, metadata)

    @property
    def _needs_data_for_mask(self) -> bool:
        own = type(self).get_valid_mask is not SliceStackedBatch.get_valid_mask
        return own or self.get_valid_mask_function is not None

    def _to_backend(self, array: Any) -> Any:
        return self.backend.from_numpy(array, device=self.device)

    # -- reading -----------------------------------------------------------------------------

    def _windows(self, idx: Any, *, with_metadata: bool) -> tuple[Any, Any, Mask, bool]:
        """Frames with two leading axes, their metadata likewise, and the mask."""
        frames, valid, single = self._frames(idx)
        shape = frames.shape
        rows = self._to_backend(frames.reshape(-1))
        metadata: Any = None
        if with_metadata or self._needs_data_for_mask:
            flat, metadata = self.batch.get_at_with_metadata(rows)
        else:
            flat = self.batch.get_at(rows)
        if self._needs_data_for_mask:
            data, stacked = self._stacked(flat, shape), self._stacked(metadata, shape)
            mask = self.get_valid_mask(self._to_backend(frames), data, stacked or {})
            valid &= np.asarray(self.backend.to_numpy(mask), dtype=np.bool_)
            if self.fill_invalid_data and not valid.all():
                taken = self._to_backend(_filled(valid, self._anchor).reshape(-1))
                flat = sbu.get_at(self.batch._batched_space, flat, taken)
                if metadata is not None and self.stack_metadata:
                    space: Any = self.batch._batched_metadata_space
                    metadata = sbu.get_at(space, metadata, taken)
        return self._stacked(flat, shape), self._stacked(metadata, shape), valid, single

    def _stacked(self, flat: Any, shape: tuple[int, ...]) -> Any:
        count = shape[0] * shape[1]
        return sbu.reshape_batch_size_in_data(self.backend, flat, (count,), shape)

    @override
    def get_at(self, idx: Any) -> Any:
        data, _, _, single = self._windows(idx, with_metadata=False)
        return sbu.get_at(self._batched_space, data, 0) if single else data

    @override
    def get_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        data, metadata, valid, single = self._windows(idx, with_metadata=True)
        own: dict[str, Any] = {}
        if metadata is not None and self.batch.single_metadata_space is not None:
            own.update(metadata if self.stack_metadata else self._of_anchor(metadata))
        own[MASK] = self._to_backend(valid)
        if single:
            data = sbu.get_at(self._batched_space, data, 0)
            space: Any = self._batched_metadata_space
            own = {key: sbu.get_at(space[key], value, 0) for key, value in own.items()}
        return data, own

    def _of_anchor(self, metadata: Any) -> Any:
        space: Any = self.batch._batched_metadata_space
        return sbu.get_at(space, metadata, (slice(None), self._anchor))

    @override
    def get_flattened_at(self, idx: Any) -> Any:
        return self._flattened(idx, self.get_at(idx))

    @override
    def get_flattened_at_with_metadata(self, idx: Any) -> tuple[Any, dict[str, Any] | None]:
        data, metadata = self.get_at_with_metadata(idx)
        return self._flattened(idx, data), metadata

    @override
    def _flattened(self, idx: Any, data: Any) -> Any:
        return self._flat(data, single=is_single(idx))

    def _flat(self, data: Any, *, single: bool) -> Any:
        if single:
            return sfu.flatten_data(self.single_space, data, start_dim=1)
        return sfu.flatten_data(self._batched_space, data, start_dim=2)

    @override
    def get_column(self, nested_keys: str | Sequence[str]) -> BatchBase[Any, Any, Any, Any, Any]:
        """A view of one entry; reads no other when there is no mask function."""
        if self._needs_data_for_mask:
            return super().get_column(nested_keys)
        column = self.batch.get_column(nested_keys)
        return SliceStackedBatch(column, self._offsets, stack_metadata=self.stack_metadata)

    # -- mask functions ----------------------------------------------------------------------

    @staticmethod
    def get_valid_mask_function_with_episode_end_key(
        episode_end_key: str | int = "episode_end", is_in_metadata: bool = False
    ) -> Callable[..., Any]:
        """A mask function that ends windows where an episode ends.

        Args:
            episode_end_key: Entry of the samples that is true for the last sample of an episode.
            is_in_metadata: Whether it is an entry of the metadata.
        """
        return partial(_until_episode_end, key=episode_end_key, is_in_metadata=is_in_metadata)

    @staticmethod
    def get_valid_mask_function_with_episodeid_key(
        episode_id_key: str | int = "episode_id", is_in_metadata: bool = False
    ) -> Callable[..., Any]:
        """A mask function that keeps the frames of the sample's own episode.

        Args:
            episode_id_key: Entry of the samples that differs between episodes.
            is_in_metadata: Whether it is an entry of the metadata.
        """
        return partial(_of_same_episode, key=episode_id_key, is_in_metadata=is_in_metadata)


def _checked(offsets: NDArray[Any]) -> RowArray:
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu":
        raise StorageArgumentError(
            f"fixed_offset should be a 1-D array of integers, got {offsets.dtype} of shape "
            f"{offsets.shape}",
            found=offsets.shape,
        )
    if not (offsets == 0).any() or (np.diff(offsets.astype(np.int64)) < 0).any():
        raise StorageArgumentError(
            f"fixed_offset should be sorted and contain 0, got {offsets.tolist()}",
            found=offsets.tolist(),
        )
    return offsets.astype(np.int64)


def _filled(valid: Mask, anchor: int) -> RowArray:
    """For each frame of flattened windows the one to show: itself, or the nearest valid one.

    Towards the anchor first, then away from it; a window without valid frames stays as it is.
    """
    count, width = valid.shape
    columns = np.arange(width)
    before = np.maximum.accumulate(np.where(valid, columns, -1), axis=1)
    after = np.where(valid, columns, width)[:, ::-1]
    after = np.minimum.accumulate(after, axis=1)[:, ::-1]
    is_early = columns < anchor
    first, second = np.where(is_early, after, before), np.where(is_early, before, after)
    shown = np.where((first >= 0) & (first < width), first, second)
    shown = np.where((shown >= 0) & (shown < width), shown, columns)
    result: RowArray = (np.arange(count)[:, None] * width + shown).astype(np.int64)
    return result


def _until_episode_end(
    windows: SliceStackedBatch[Any, Any, Any, Any, Any],
    frames: Any,
    data: Any,
    metadata: Any,
    *,
    key: str | int,
    is_in_metadata: bool,
) -> Any:
    """Valid are the frames between which and the anchor no episode ends."""
    backend, offsets = windows.backend, windows._offsets
    anchor = windows._anchor
    if (np.diff(offsets) != 1).any():
        # An end may lie between two frames: look at every sample in between.
        positions = backend.to_numpy(frames)[:, anchor, None] + np.arange(
            offsets[0], offsets[-1] + 1
        )
        positions = np.clip(positions, 0, max(0, len(windows) - 1))
        ends = _entry_at(windows, positions, key, is_in_metadata)
        columns = offsets - offsets[0]
        anchor = int(-offsets[0])
    else:
        source = metadata if is_in_metadata else data
        ends = np.asarray(backend.to_numpy(source[key]), dtype=np.bool_)
        columns = np.arange(len(offsets))
    ends = ends.reshape(*ends.shape[:2])
    # ended[:, c]: ends among the samples before column c; equal at both ends of an unbroken run.
    ended = np.concatenate([np.zeros((len(ends), 1), np.int64), np.cumsum(ends, axis=1)], axis=1)
    unbroken = ended[:, columns] == ended[:, anchor, None]
    return windows._to_backend(unbroken)


def _entry_at(
    windows: SliceStackedBatch[Any, Any, Any, Any, Any],
    positions: RowArray,
    key: str | int,
    is_in_metadata: bool,
) -> Mask:
    backend = windows.backend
    unique, inverse = np.unique(positions, return_inverse=True)
    rows = windows._to_backend(unique)
    if is_in_metadata:
        metadata: Any = windows.batch.get_at_with_metadata(rows)[1]
        values = metadata[key]
    elif isinstance(key, str):
        values = windows.batch.get_column([key]).get_at(rows)
    else:
        values = windows.batch.get_at(rows)[key]
    ends = np.asarray(backend.to_numpy(values), dtype=np.bool_)
    result: Mask = ends[inverse.reshape(positions.shape)]
    return result


def _of_same_episode(
    windows: SliceStackedBatch[Any, Any, Any, Any, Any],
    frames: Any,
    data: Any,
    metadata: Any,
    *,
    key: str | int,
    is_in_metadata: bool,
) -> Any:
    source = metadata if is_in_metadata else data
    ids = source[key]
    same = ids == ids[:, windows._anchor, ...][:, None]
    same = np.asarray(windows.backend.to_numpy(same), dtype=np.bool_)
    return windows._to_backend(same.reshape(*same.shape[:2], -1).all(axis=-1))
