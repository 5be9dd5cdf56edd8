"""A batch whose samples pass through a transformation."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from unienv_data.base.batch import BatchBase
from unienv_data.batches._mapped import MappedBatch
from unienv_interface.transformations import DataTransformation

__all__ = ["TransformedBatch"]


class TransformedBatch(MappedBatch):
    """Samples of another batch, transformed when they are read.

    It can be written to when the other batch can and the transformation has an inverse. `close`
    closes the transformations, which are its own, and leaves the other batch open.
    """

    def __init__(
        self,
        batch: BatchBase[Any, Any, Any, Any, Any],
        transformation: DataTransformation,
        metadata_transformation: DataTransformation | None = None,
    ) -> None:
        """Chooses the transformations.

        Args:
            batch: The samples.
            transformation: What samples become.
            metadata_transformation: What their metadata become, None to leave them.
        """
        metadata_space: Any = batch.single_metadata_space
        if metadata_space is not None and metadata_transformation is not None:
            metadata_space = metadata_transformation.get_target_space_from_source(metadata_space)
        space = transformation.get_target_space_from_source(batch.single_space)
        super().__init__(batch, space, metadata_space)
        self.transformation = transformation
        self.metadata_transformation = metadata_transformation
        inverse = None
        if transformation.has_inverse:
            inverse = transformation.direction_inverse(batch.single_space)
        self._inverse: DataTransformation | None = inverse
        self.is_mutable = batch.is_mutable and inverse is not None

    @override
    def _out(self, data: Any, *, single: bool) -> Any:
        parent = self.batch
        space = parent.single_space if single else parent._batched_space
        return self.transformation.transform(space, data)

    @override
    def _metadata_out(self, metadata: Any, *, single: bool) -> Any:
        parent = self.batch
        space = parent.single_metadata_space if single else parent._batched_metadata_space
        if self.metadata_transformation is None or space is None:
            return metadata
        return self.metadata_transformation.transform(space, metadata)

    @override
    def _in(self, data: Any, *, single: bool) -> Any:
        if self._inverse is None:
            self._refuse("set_at")
        space = self.single_space if single else self._batched_space
        return self._inverse.transform(space, data)

    @override
    def close(self) -> None:
        self.transformation.close()
        if self.metadata_transformation is not None:
            self.metadata_transformation.close()
