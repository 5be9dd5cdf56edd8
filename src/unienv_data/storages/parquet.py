"""Samples of a space in a directory of Parquet files.

The straight path: `create` makes an empty, loadable directory; `append` and `set` check values
against the schema and store them in the memory-mapped bank, where they survive the process; full
pieces become Parquet files in the background; `flush` and `close` make everything durable; `get`
gathers from the bank, into which absent pieces are decoded first. See docs/design.md.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from typing_extensions import Self, override

from unienv_data.bank.bank import Bank
from unienv_data.bank.journal import ROWS
from unienv_data.base.capabilities import Ledger
from unienv_data.base.indexing import normalize
from unienv_data.base.segment import SegmentWriter
from unienv_data.base.storage import SpaceStorage, reject_unknown_keywords
from unienv_data.errors import (
    CapacityError,
    ForkedWriterError,
    ReadOnlyError,
    SegmentStateError,
    StorageArgumentError,
    StorageClosedError,
    StorageError,
    StorageLockedError,
    StorageSpaceError,
)
from unienv_data.format.codec import Compression
from unienv_data.format.layout import MANIFEST_NAME, Layout
from unienv_data.format.manifest import Manifest
from unienv_data.format.schema import DEFAULT_KEY, Schema
from unienv_data.io.atomic import empty_directory, replace_file, space_error
from unienv_data.io.paths import absolute
from unienv_data.storages._appender import Appender
from unienv_data.storages._arguments import (
    KEEP,
    adopted,
    check_count,
    check_target,
    new_manifest,
)
from unienv_data.storages._column_view import ColumnView
from unienv_data.storages._dump import dump, generation_of_dump
from unienv_data.storages._forked import ForkedBank
from unienv_data.storages._opening import (
    Found,
    check_capacity,
    find,
    find_raw,
    resolve_schema,
    stored_space,
)
from unienv_data.storages._options import Options
from unienv_data.storages._reader import Reader
from unienv_data.storages._segment_writer import ParquetSegmentWriter
from unienv_data.storages._writer import Writer
from unienv_interface.backends.numpy import (
    NumpyArrayType,
    NumpyDeviceType,
    NumpyDtypeType,
    NumpyRNGType,
)
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, TextSpace

if TYPE_CHECKING:
    from unienv_data.replay_buffer.replay_buffer import ReplayBuffer

__all__ = ["ParquetSpaceType", "ParquetStorage"]

ParquetSpaceType: TypeAlias = "DictSpace | BoxSpace | TextSpace | BinarySpace"
"""A flat DictSpace of Box, Binary and Text spaces, or one of these alone; on numpy."""

_INT64 = np.dtype(np.int64)

_open_storages: weakref.WeakSet[ParquetStorage] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for storage in list(_open_storages):
        storage._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)


class ParquetStorage(
    SpaceStorage[Any, NumpyArrayType, NumpyDeviceType, NumpyDtypeType, NumpyRNGType]
):
    """Samples of a space, as Parquet files of `piece_size` rows and a manifest.

    What is read is bit for bit what was written. A row is safe from the death of the process
    when the call that wrote it returns, and safe from power loss when `flush`, `dumps` or `close`
    returns. One writer and any number of readers may have a directory open; calls on one storage
    are atomic to each other.

    Owns the open half: a `Writer` or a `Reader`, whose bank holds the decoded rows.
    """

    single_file_ext: ClassVar[str | None] = None
    DEFAULT_KEY: ClassVar[str] = DEFAULT_KEY

    def __class_getitem__(cls, parameters: Any) -> GenericAlias:
        """Annotations may repeat the parameters, as they may for every storage."""
        return GenericAlias(cls, parameters)

    def __init__(
        self,
        single_instance_space: ParquetSpaceType,
        storage_dir: str | os.PathLike[str],
        capacity: int | None,
        piece_size: int,
        num_pieces: int,
        total_len: int,
        column_specs: Sequence[tuple[str, Any, Sequence[int]]],
        column_shapes: Mapping[str, Sequence[int]],
        read_only: bool = False,
        compression: Compression = "snappy",
    ) -> None:
        """Opens an existing directory whose facts the caller knows; `load_from` finds them out.

        Args:
            single_instance_space: Space of one sample.
            storage_dir: The directory.
            capacity: Number of rows of a bounded storage, None for a growing one.
            piece_size: Rows a piece.
            num_pieces: Pieces in the directory.
            total_len: Rows in the directory.
            column_specs: Name, numpy dtype and shape of each column.
            column_shapes: Shape of each column.
            read_only: Open for reading.
            compression: Codec, or codecs by column, of pieces written from now on.

        Raises:
            StorageArgumentError: An argument contradicts the directory.
        """
        claims = {
            "piece_size": piece_size,
            "num_pieces": num_pieces,
            "total_len": total_len,
            "column_specs": {
                name: (np.dtype(dtype), tuple(shape)) for name, dtype, shape in column_specs
            },
            "column_shapes": {name: tuple(shape) for name, shape in column_shapes.items()},
        }
        self._open(
            single_instance_space,
            absolute(storage_dir),
            capacity=capacity,
            read_only=read_only,
            options=Options(),
            compression=compression,
            claims=claims,
        )

    # -- factories ---------------------------------------------------------------------------

    @classmethod
    @override
    def create(
        cls,
        single_instance_space: ParquetSpaceType,
        *args: Any,
        capacity: int | None = None,
        cache_path: str | os.PathLike[str] | None = None,
        multiprocessing: bool = False,
        piece_size: int = 1024,
        compression: Compression = "snappy",
        **kwargs: Any,
    ) -> Self:
        """Makes an empty storage, loadable from this moment on, and opens it for writing.

        Args:
            single_instance_space: A flat DictSpace of Box, Binary and Text spaces, or one alone.
            *args: Ignored, as other storages' factories take arguments here.
            capacity: Fixed number of rows, all zeros at first; None for a growing storage.
            cache_path: Directory of the data set; absent or empty.
            multiprocessing: Whether several processes are going to use it. A writable storage
                has one writer, so this only states a wish; readers need nothing.
            piece_size: Rows a Parquet file.
            compression: `"snappy"`, `"zstd"`, `"gzip"`, `"brotli"`, `"lz4"`; a mapping from
                column to codec, columns not named being uncompressed; or None. Under zstd
                floats are split by byte, which makes smooth trajectories smallest.
            **kwargs: The fields of `Options`: budgets, directories, durability.

        Raises:
            StorageExistsError: The directory holds something.
            UnsupportedSpaceError: The space cannot be stored.
            StorageArgumentError: Another argument is out of range.
        """
        options, rest = Options.take(kwargs)
        reject_unknown_keywords(rest, f"{cls.__name__}.create")
        if cache_path is None:
            raise StorageArgumentError(
                "create: cache_path is needed: the directory of the data set", expected="a path"
            )
        directory = absolute(cache_path)
        manifest = new_manifest(single_instance_space, directory, capacity, piece_size, compression)
        check_target(directory)
        is_new = not directory.exists()
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise space_error(error, directory, "create") from error
        self = cls.__new__(cls)
        try:
            is_synced = options.durability == "power"
            replace_file(directory / MANIFEST_NAME, manifest.dump(), sync=is_synced)
            self._open(
                single_instance_space,
                directory,
                capacity=capacity,
                read_only=False,
                options=options,
            )
        except StorageSpaceError:
            empty_directory(directory)  # it was empty before: the call can be repeated
            if is_new:
                with contextlib.suppress(OSError):
                    directory.rmdir()
            raise
        return self

    @classmethod
    @override
    def load_from(
        cls,
        path: str | os.PathLike[str],
        single_instance_space: ParquetSpaceType,
        *,
        capacity: int | None = None,
        read_only: bool = True,
        multiprocessing: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Opens a directory, also one that the original library wrote.

        Args:
            path: The directory.
            single_instance_space: The stored space; read-only, a DictSpace may leave keys out.
            capacity: Expected capacity; None takes the stored one.
            read_only: Show the rows committed by now and never write into the directory.
                Otherwise become its one writer, and recover what an interrupted one left.
            multiprocessing: See `create`.
            **kwargs: The fields of `Options`; keywords of other storages are accepted.

        Raises:
            MissingStorageError: There is no storage.
            SchemaMismatchError: The space differs from the stored columns.
            CapacityError: The capacity differs from the stored one.
            StorageLockedError: Another writer has it open.
        """
        options, rest = Options.take(kwargs)
        reject_unknown_keywords(rest, f"{cls.__name__}.load_from")
        self = cls.__new__(cls)
        self._open(
            single_instance_space,
            absolute(path),
            capacity=capacity,
            read_only=read_only,
            options=options,
        )
        return self

    @staticmethod
    def build_space_from_parquet_file(
        path: str | os.PathLike[str],
    ) -> tuple[int, int, ParquetSpaceType]:
        """Finds out what a directory of Parquet files holds.

        Args:
            path: A storage's directory, or one of any Parquet files with equal columns.

        Returns:
            Number of rows; the capacity, or the number of rows again when it grows; and the
            space: the complete one where the directory describes it, else the widest one of the
            columns' dtypes and shapes.
        """
        found = find_raw(absolute(path))
        manifest = found.manifest
        capacity = manifest.num_rows if manifest.capacity is None else manifest.capacity
        space: Any = stored_space(manifest)
        return manifest.num_rows, capacity, space

    @staticmethod
    def load_replay_buffer_from_raw_parquet(path: str | os.PathLike[str]) -> ReplayBuffer:
        """Opens a directory of Parquet files as a read-only buffer of all its rows.

        Args:
            path: A storage's directory, or one of any Parquet files with equal columns.
        """
        from unienv_data.replay_buffer.replay_buffer import ReplayBuffer

        directory = absolute(path)
        found = find_raw(directory)
        space: Any = stored_space(found.manifest)
        storage = ParquetStorage.__new__(ParquetStorage)
        storage._open(
            space, directory, capacity=None, read_only=True, options=Options(), found=found
        )
        return ReplayBuffer(storage, "", found.manifest.num_rows, 0, None)

    # -- opening -----------------------------------------------------------------------------

    def _open(
        self,
        space: ParquetSpaceType,
        directory: Path,
        *,
        capacity: int | None,
        read_only: bool,
        options: Options,
        compression: Any = KEEP,
        claims: Mapping[str, Any] | None = None,
        found: Found | None = None,
    ) -> None:
        super().__init__(space)
        self._directory = directory
        self._options = options
        self._read_only = read_only
        self._closed = True  # until it is open
        # A `Bank`; in a forked child of a writer a `ForkedBank`.
        self._open_bank: Any = None
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._segment_start: int | None = None
        self._segment_cursor = 0
        self._schema = Schema.from_space(space, f"open {directory}")
        self._place = f"of {directory}"
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._appender: Appender | None = None

        def prepare(manifest: Manifest) -> Manifest:
            manifest = resolve_schema(manifest, directory)
            self._check(manifest, claims)
            self._capacity = check_capacity(manifest, capacity, f"open {directory}")
            return adopted(manifest, space, self._capacity, compression)

        if options.on_damage == "skip" and not read_only:
            raise StorageArgumentError(
                f'open {directory}: on_damage="skip" is for reading only; `unienv-data repair` '
                "makes a damaged storage writable again"
            )
        if read_only:
            found = find(directory) if found is None else found
            self._check(found.manifest, claims)
            self._capacity = check_capacity(found.manifest, capacity, f"open {directory}")
            self._reader = Reader(directory, found, options)
            self._open_bank = self._reader.bank
            self._length = found.manifest.num_rows
            stored = found.manifest.schema
        else:
            if not (directory / MANIFEST_NAME).exists():
                find(directory)  # says what is wrong
            self._writer = Writer(directory, options, self._lock, prepare)
            self._open_bank = self._writer.bank
            self._length = self._writer.rows
            stored = self._writer.manifest.schema
        numbers = {name: number for number, name in enumerate(stored.names)}
        self._columns = [numbers[name] for name in self._schema.names]
        self._closed = False
        _open_storages.add(self)

    def _check(self, manifest: Manifest, claims: Mapping[str, Any] | None) -> None:
        self._schema.check_same(manifest.schema, f"open {self._directory}", subset=self._read_only)
        if claims is None:
            return
        facts = {
            "piece_size": manifest.piece_size,
            "num_pieces": Layout(manifest.piece_size).count(manifest.num_rows),
            "total_len": manifest.num_rows,
            "column_specs": {c.name: (c.dtype, c.shape) for c in manifest.schema.columns},
            "column_shapes": {c.name: c.shape for c in manifest.schema.columns},
        }
        for name, claim in claims.items():
            if claim != facts[name]:
                raise StorageArgumentError(
                    f"open {self._directory}: {name} is {facts[name]!r}, the caller says {claim!r};"
                    " use load_from, which reads it from the directory",
                    expected=facts[name],
                    found=claim,
                )

    @property
    def _bank(self) -> Any:
        bank = self._open_bank
        if bank is None:
            self._check_open()
            raise StorageError(f"{self._directory}: the storage was never opened")
        return bank

    def _check_open(self) -> None:
        if self._closed:
            raise StorageClosedError(
                f"{self._directory}: the storage is closed; open it again with load_from",
                path=str(self._directory),
            )

    def _write_half(self, operation: str) -> Writer:
        self._check_open()
        if self._writer is None:
            raise ReadOnlyError(
                f"{operation}: {self._directory} is open read-only; open it with read_only=False",
                path=str(self._directory),
            )
        if self._writer.pid != os.getpid():
            raise ForkedWriterError(
                f"{operation}: {self._directory} is written by the parent process "
                f"{self._writer.pid}; a forked child may only read",
                path=str(self._directory),
                pid=self._writer.pid,
            )
        return self._writer

    def _after_fork(self) -> None:
        """In a child: its parent's threads do not exist, and may have held the lock."""
        self._lock = threading.RLock()
        self._drop_appender()  # its rows are the parent's to write
        bank = self._open_bank
        if bank is not None:
            bank.after_fork()
        if self._writer is not None and isinstance(bank, Bank):
            directory, options = self._directory, self._options
            self._open_bank = ForkedBank(
                self._writer.set, lambda: Reader(directory, find(directory), options)
            )

    # -- facts -------------------------------------------------------------------------------

    @property
    @override
    def capacity(self) -> int | None:
        """Number of rows of a bounded storage, None for a growing one."""
        return self._capacity

    @property
    @override
    def cache_filename(self) -> str:
        """The directory."""
        return str(self._directory)

    @property
    @override
    def is_mutable(self) -> bool:
        """Whether rows can be written through this object, in this process."""
        return not self._read_only and self._pid == os.getpid()

    @property
    @override
    def is_multiprocessing_safe(self) -> bool:
        """Whether several processes may use copies of it: only read-only ones."""
        return not self.is_mutable

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def is_flush_due(self) -> bool:
        """Whether the last flush is longer ago than `flush_interval_s`; owners ask it."""
        return self._writer is not None and not self._closed and self._writer.is_flush_due

    @property
    def damaged_rows(self) -> list[tuple[int, int]]:
        """Half-open ranges of rows that cannot be read, ascending, as of opening or `refresh`.

        Only `load_from(..., on_damage="skip")` looks for them; otherwise empty. Sample from the
        rows between them: reading one, alone or in a slice, raises an error naming file and rows.
        """
        return [] if self._reader is None else list(self._reader.damaged)

    @property
    def piece_size(self) -> int:
        """Rows a piece."""
        return int(self._bank.layout.piece_size)

    @property
    def _cached_pieces(self) -> dict[int, Any]:
        """Pieces held decoded by this object alone: none, the bank is shared."""
        return {}

    @property
    def _cached_piece_tables(self) -> dict[int, str]:
        """Pieces that are in the bank."""
        return dict.fromkeys(self._bank.present_pieces(), "in the bank")

    @override
    def __len__(self) -> int:
        return self._length

    @override
    def __repr__(self) -> str:
        columns = ", ".join(f"{c.name}: {c.describe()}" for c in self._schema.columns)
        if self._closed:
            return f"{type(self).__name__}({str(self._directory)!r}, closed; {columns})"
        bank = self._bank
        mode = "read-only" if self._read_only else "writable"
        size = f"{self._length} rows" if self._capacity is None else f"capacity {self._capacity}"
        unsealed = ""
        if self._writer is not None:
            dirty = len(bank.dirty_pieces())
            unsealed = f", {dirty} to seal" if dirty else ", all sealed"
        return (
            f"{type(self).__name__}({str(self._directory)!r}, {mode}, {size} in "
            f"{bank.layout.count(self._length)} pieces of {bank.layout.piece_size}{unsealed}; "
            f"{columns})"
        )

    # -- reading -----------------------------------------------------------------------------

    @override
    def get(self, index: Any) -> Any:
        """Reads rows.

        Args:
            index: An int, a slice, ``...``, a 1-D integer array or sequence, or a mask.

        Returns:
            For an int one sample, for everything else a batch ``(B, *shape)``: arrays of the
            column's dtype, text as an object array of `str`; a dict of these for a DictSpace.
            Always copies. Rows never set are zeros, or `""`.

        Raises:
            RowIndexError: A row lies outside the storage.
            FormatError: A piece is damaged; the others stay readable.
        """
        with self._lock:
            return self._schema.pack(self._read(index, self._columns))

    def _read(self, index: Any, columns: Sequence[int]) -> list[Any]:
        """Rows of some columns, by their numbers; the caller holds the lock."""
        bank = self._bank
        if type(index) is np.ndarray and index.dtype is _INT64 and index.ndim == 1:
            found: list[Any] | None = bank.take_ready(index, columns, self._length)
            if found is not None:
                return found
        gathered: list[Any] = bank.gather(
            normalize(index, self._length, str(self._directory)), columns
        )
        return gathered

    def refresh(self) -> int:
        """Moves a read-only storage to the newest commit, and gives its number of rows."""
        with self._lock:
            self._check_open()
            if self._reader is not None:
                self._length = self._reader.refresh()
                self._open_bank = self._reader.bank
            return self._length

    def get_column(self, keys: str | Sequence[str]) -> SpaceStorage[Any, Any, Any, Any, Any]:
        """Gives a live view of one column that reads nothing else.

        Args:
            keys: The column's name, or a sequence of just it.

        Raises:
            StorageArgumentError: Not exactly one known key, or not a DictSpace.
        """
        names = [keys] if isinstance(keys, str) else list(keys)
        if not self._schema.is_dict or len(names) != 1 or names[0] not in self._schema.names:
            known = list(self._schema.names) if self._schema.is_dict else "no keys: one bare space"
            raise StorageArgumentError(
                f"get_column: expected one key of {known}, got {names!r}",
                expected=known,
                found=names,
            )
        return ColumnView(self, names[0])

    # -- writing -----------------------------------------------------------------------------

    @override
    def set(self, index: Any, value: Any) -> None:
        """Overwrites rows: all of them, or none when something does not fit.

        Args:
            index: As for `get`. With repeated rows the last value wins.
            value: One sample for an int, else a batch of as many rows; extra keys are ignored.

        Raises:
            SampleError: A value does not fit its column; nothing is changed.
            RowIndexError: A row lies outside the storage.
        """
        with self._lock:
            writer = self._write_half("set")
            rows = normalize(index, self._length, str(self._directory))
            place = f"set {self._place}"
            if isinstance(rows, int):
                values = _as_batch(self._schema.check_row(value, place))
                self._write(writer, slice(rows, rows + 1), values, 1)
            else:
                count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
                self._write(writer, rows, self._schema.check_batch(value, count, place), count)

    def _write(
        self, writer: Writer, where: Any, values: list[Any], count: int, **ledger: Any
    ) -> None:
        writer.write(where, self._in_stored_order(values), count, **ledger)
        if self._capacity is None:
            self._length = max(self._length, writer.rows)

    def _in_stored_order(self, values: list[Any]) -> list[Any]:
        ordered = [None] * len(values)
        for number, value in zip(self._columns, values, strict=True):
            ordered[number] = value
        return ordered

    @override
    def extend_length(self, length: int) -> None:
        """Makes a growing storage longer; new rows read as zeros and count once set."""
        with self._lock:
            writer = self._write_half("extend_length")
            self._check_growing("extend_length")
            check_count("extend_length: length", length, 1)
            writer.finish_shrink()
            writer.bank.set_rows(self._length + int(length))
            self._length += int(length)

    @override
    def shrink_length(self, length: int) -> None:
        """Drops the last rows of a growing storage, on disk as well."""
        with self._lock:
            writer = self._write_half("shrink_length")
            self._check_growing("shrink_length")
            check_count("shrink_length: length", length, 1)
            if length > self._length:
                raise StorageArgumentError(
                    f"shrink_length: cannot drop {length} of {self._length} rows",
                    expected=self._length,
                    found=length,
                )
            self._length -= int(length)
            writer.shrink(self._length)

    @override
    def clear(self) -> None:
        """Drops every row of a growing storage; a bounded one keeps its content."""
        with self._lock:
            self._write_half("clear")
            self._segment_start = None
            if self._capacity is None and self._length:
                self.shrink_length(self._length)

    def _check_growing(self, operation: str) -> None:
        if self._capacity is not None:
            raise CapacityError(
                f"{operation}: {self._directory} has a fixed capacity of {self._capacity} rows",
                expected=None,
                found=self._capacity,
            )

    # -- segments ----------------------------------------------------------------------------

    @property
    @override
    def has_open_segment(self) -> bool:
        """Whether `append` may be called."""
        return self._segment_start is not None

    @override
    def mark_segment_start(self, index: int) -> None:
        """Opens a segment whose rows `append` writes from `index` on."""
        with self._lock:
            self._write_half("mark_segment_start")
            if self._segment_start is not None:
                raise SegmentStateError(
                    "mark_segment_start: a segment is open already; call mark_segment_end first"
                )
            limit = self._length if self._capacity is None else self._capacity - 1
            if not 0 <= index <= limit:
                raise StorageArgumentError(
                    f"mark_segment_start: row {index} is outside [0, {limit}]", found=index
                )
            self._segment_start = self._segment_cursor = int(index)

    @override
    def append(self, value: Any) -> None:
        """Writes one sample at the open segment's cursor; a growing storage grows by it.

        Raises:
            SegmentStateError: No segment is open.
            SampleError: The value does not fit; nothing is changed.
        """
        with self._lock:
            writer = self._write_half("append")
            if self._segment_start is None:
                raise SegmentStateError("append: no segment is open; call mark_segment_start first")
            row = self._segment_cursor
            if self._capacity is None and row == writer.rows:
                self.append_row(row, value)
                self._segment_cursor = row + 1
            else:
                self.set(row, value)
                self._segment_cursor = (
                    row + 1 if self._capacity is None else ((row + 1) % self._capacity)
                )

    @override
    def mark_segment_end(self) -> None:
        """Closes the open segment; flushes when the last flush is long ago."""
        with self._lock:
            writer = self._write_half("mark_segment_end")
            if self._segment_start is None:
                return
            self._segment_start = None
            # An owner flushes itself, so that its segments are on disk together with the rows.
            if writer.is_flush_due and not writer.ledger.is_bound:
                writer.flush()

    @override
    def abort_segment(self) -> None:
        """Closes the open segment; rows appended to the end of a growing storage are dropped."""
        with self._lock:
            writer = self._write_half("abort_segment")
            start, self._segment_start = self._segment_start, None
            if start is not None and self._capacity is None and self._segment_cursor == writer.rows:
                surplus = self._length - start
                if surplus > 0:
                    self.shrink_length(surplus)

    @override
    def open_segment_writer(self) -> SegmentWriter[Any, Any, Any, Any, Any]:
        """Gives a writer that collects a segment aside; any number may be open at once."""
        with self._lock:
            self._write_half("open_segment_writer")
            return ParquetSegmentWriter(self, self._schema)

    def _write_segment(self, start: int, values: list[Any], count: int) -> None:
        """Stores a collected segment's rows ``[start, start + count)``, modulo the capacity."""
        with self._lock:
            writer = self._write_half("commit")
            if self._capacity is None:
                if not 0 <= start <= self._length:
                    raise CapacityError(
                        f"commit: the storage has {self._length} rows, the segment starts at "
                        f"{start}; extend_length first",
                        expected=self._length,
                        found=start,
                    )
                self._write(writer, slice(start, start + count), values, count)
                return
            if count > self._capacity:
                raise CapacityError(
                    f"commit: {count} rows do not fit the capacity of {self._capacity}",
                    expected=self._capacity,
                    found=count,
                )
            rows = (start + np.arange(count, dtype=np.int64)) % self._capacity
            self._write(writer, rows, values, count)

    # -- for the owner (capability "ledger") -------------------------------------------------

    def capability(self, name: str) -> bool | None:
        """Says which optional capabilities this storage has; None where its methods tell."""
        if name == "ledger":
            return self._writer is not None or self._reader is not None
        return None

    @property
    def ledger(self) -> Ledger:
        """Ring position and segments of the buffer that owns this storage."""
        if self._writer is not None:
            return self._writer.ledger
        if self._reader is None:
            self._check_open()
            raise StorageError("the storage is not open")
        return self._reader.ledger

    def append_row(self, position: int, value: Any) -> None:
        """Writes one sample; see `SupportsLedger`. The hot path of recording."""
        with self._lock:
            appender = self._appender
            if appender is None or not appender.window.start <= position < appender.window.stop:
                appender = self._open_window(position)
            appender.store(position, value)
            if self._capacity is None:
                end = position + 1
                self._rows_word[ROWS] = end  # from here on the row counts
                if end > self._length:
                    self._length = self._appended_bank.rows = end
            if position + 1 == appender.window.stop:
                self._close_window(position, appender)

    def _open_window(self, position: int) -> Appender:
        """Prepares the piece of a row for appends."""
        writer = self._write_half("append")
        if self._capacity is None and position != writer.rows:
            raise StorageArgumentError(
                f"append: row {position} is not the next one, {writer.rows}",
                expected=writer.rows,
                found=position,
            )
        self._settle_texts()
        writer.open_window(position)
        bank = self._appended_bank = writer.bank
        if self._capacity is None and self._length < position + 1:
            bank.set_rows(position + 1)
        self._rows_word = writer.set.words
        piece = bank.layout.piece_of(position)
        self._appender = Appender(
            bank, writer.set.window, piece, self._schema, self._columns, f"append {self._place}"
        )
        return self._appender

    def _close_window(self, position: int, appender: Appender) -> None:
        appender.window.shut()
        self._settle_texts()
        if self._writer is not None:
            self._writer.close_window(position)

    def _settle_texts(self) -> None:
        """Puts texts that were appended on the bank's account."""
        appender, self._appender = self._appender, None
        if appender is not None and appender.text_bytes and self._writer is not None:
            self._writer.bank.note_texts(appender.piece, appender.text_bytes)

    def write_rows(self, positions: Any, value: Any, *, head: int, tail: int) -> None:
        """Writes a batch and moves the ledger, all or nothing; see `SupportsLedger`."""
        with self._lock:
            writer = self._write_half("write_rows")
            place = f"extend {self._place}"
            if isinstance(positions, slice):
                count = positions.stop - positions.start
            else:
                positions = np.asarray(positions, dtype=np.int64)
                count = len(positions)
            values = self._schema.check_batch(value, count, place)
            gives_up = tail != writer.ledger.tail
            self._write(writer, positions, values, count, head=head, tail=tail, gives_up=gives_up)

    # -- durability --------------------------------------------------------------------------

    def flush(self) -> None:
        """Makes every row safe from power loss; nothing to do for a read-only storage.

        Raises:
            StorageSpaceError: The disk is full. Every row is still safe from process death, and
                the same call succeeds once there is space.
        """
        if self._writer is None or self._closed:
            self._check_open()
            return
        self._write_half("flush").sealer.drain()
        with self._lock:
            self._write_half("flush").flush()

    @override
    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Writes a complete, synced copy; into its own directory it is a flush.

        Args:
            path: An absent or empty directory, or an earlier dump of this storage. This storage
                stays attached to its own directory.

        Raises:
            StorageExistsError: The target holds something else.
        """
        target = absolute(path)
        if os.path.realpath(target) == os.path.realpath(self._directory):
            self.flush()
            return
        self.flush()
        with self._lock:
            self._check_open()
            half: Any = self._writer if self._writer is not None else self._reader
            dump(half.manifest, half.pieces, target)

    def generation_of_dump(self, path: str | os.PathLike[str]) -> int:
        """Number that the commit of a `dumps` into a directory would have now."""
        with self._lock:
            self._check_open()
            half: Any = self._writer if self._writer is not None else self._reader
            return generation_of_dump(half.manifest, absolute(path))

    @override
    def close(self) -> None:
        """Flushes a writable storage and lets the directory go. May be called twice.

        If flushing fails the storage stays open, so that the call can be repeated. If its
        directory was removed or moved, a `RuntimeWarning` says that rows were not written.
        """
        writer = self._writer
        if not self._closed and writer is not None and writer.pid == os.getpid():
            writer.sealer.drain()
        with self._lock:
            if self._closed:
                return
            if writer is not None:
                is_ours = writer.pid == os.getpid()
                is_in_place = not is_ours or self._is_in_place(writer)
                if is_ours and is_in_place:
                    writer.flush()
                self._let_go(remove=is_in_place)
            elif self._reader is not None:
                self._closed, self._open_bank = True, None
                self._drop_appender()
                self._reader.close()
        if writer is not None and writer.pid == os.getpid():
            writer.sealer.close()

    def _is_in_place(self, writer: Writer) -> bool:
        """Whether the directory is still there; says so when rows cannot be written any more."""
        if (self._directory / MANIFEST_NAME).exists():
            return True
        if writer.has_unflushed_rows:
            warnings.warn(
                f"close: {self._directory} was removed or moved while it was being written; rows "
                "that were not flushed are not in its pieces. If it was moved, open it there with "
                "read_only=False: they are in its working set",
                RuntimeWarning,
                stacklevel=3,
            )
        return False

    def _let_go(self, *, remove: bool) -> None:
        if isinstance(self._open_bank, ForkedBank):
            self._open_bank.close()
        self._closed, self._open_bank = True, None
        self._drop_appender()
        if self._writer is not None:
            self._writer.close(remove=remove)

    def _drop_appender(self) -> None:
        if self._appender is not None:
            self._appender.window.shut()
            self._appender = None

    @override
    def __del__(self) -> None:
        if getattr(self, "_closed", True):
            return
        try:
            writer = self._writer
            if writer is None or writer.pid != os.getpid():
                self.close()
                return
            left = writer.has_unflushed_rows
            if left:
                warnings.warn(
                    f"{self._directory}: dropped without close(); its rows are safe, and sealed "
                    "when it is next opened for writing",
                    ResourceWarning,
                    stacklevel=1,
                    source=self,
                )
            self._let_go(remove=not left)
        except Exception:  # noqa: BLE001 - a finaliser, perhaps of a half-dead interpreter
            return

    # -- copies ------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Where the rows are, not the rows: a writable storage is flushed first."""
        if self._writer is not None and not self._closed and self._writer.pid == os.getpid():
            self.flush()
        return {
            "space": self.single_instance_space,
            "directory": str(self._directory),
            "capacity": self._capacity,
            "read_only": self._read_only,
            "options": self._options,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Opens the same directory in the same mode; read-only while it has a writer."""
        arguments = {
            "space": state["space"],
            "directory": Path(state["directory"]),
            "capacity": state["capacity"],
            "options": state["options"],
        }
        try:
            self._open(**arguments, read_only=state["read_only"])
        except StorageLockedError:
            self._open(**arguments, read_only=True)


def _as_batch(values: list[Any]) -> list[Any]:
    return [[value] if isinstance(value, str) else np.asarray(value)[None] for value in values]
