"""Choice between a delta and a checkpoint, from the sizes of a cursor's records. Pure."""

from __future__ import annotations

CHECKPOINT_AFTER_BYTES = 64 * 1024
"""Bytes of deltas that are worth a checkpoint, however small it is."""

CHECKPOINT_AFTER_TIMES = 2
"""Times its own size that deltas may grow behind a checkpoint: bounds recovery, and what checkpoints cost over all."""

CHECKPOINT_AFTER_DELTAS = 10_000
"""Deltas that are worth a checkpoint, however large it is: bounds recovery where each of them is tiny."""

SMALL_CHECKPOINT_AFTER_DELTAS = 1_000
"""Deltas that are worth a checkpoint that is small beside them: bounds the memory that the log keeps for their runs."""

SMALL_CHECKPOINT_TIMES = 8
"""A checkpoint is small beside deltas that take so many times its bytes."""


class RecordSizes:
    """The sizes of the last checkpoint and of the deltas since, and of all records together."""

    __slots__ = ("_checkpoint", "_deltas", "_since", "checkpoint_bytes_written", "delta_bytes_written")

    def __init__(self, checkpoint: int = 0, since: int = 0, deltas: int = 0) -> None:
        """Continue after a checkpoint of ``checkpoint`` bytes and ``deltas`` deltas of ``since`` bytes."""
        self._checkpoint = checkpoint
        self._since = since
        self._deltas = deltas
        self.delta_bytes_written = 0
        self.checkpoint_bytes_written = 0
        """Bytes of all records handed to the ledger, by their kind."""

    def add_checkpoint(self, size: int) -> None:
        """Note a checkpoint."""
        self._checkpoint, self._since, self._deltas = size, 0, 0
        self.checkpoint_bytes_written += size

    def add_delta(self, size: int) -> None:
        """Note a delta."""
        self._since += size
        self._deltas += 1
        self.delta_bytes_written += size

    @property
    def is_outgrown(self) -> bool:
        """Whether a checkpoint is worth more than the deltas since the last one."""
        deltas, size, checkpoint = self._deltas, self._since, self._checkpoint
        return (
            size > max(CHECKPOINT_AFTER_BYTES, CHECKPOINT_AFTER_TIMES * checkpoint)
            or deltas >= CHECKPOINT_AFTER_DELTAS
            or (deltas >= SMALL_CHECKPOINT_AFTER_DELTAS and size >= SMALL_CHECKPOINT_TIMES * checkpoint)
        )
