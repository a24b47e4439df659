"""The names and sequence ids of a task's messages. Pure.

Deduplication (PIP-6) knows the highest sequence id of each producer's name. A task of a stream always has the same name
and, in one micro-batch, the same first sequence id, so that a further attempt learns how much was published.
"""

from __future__ import annotations

from dataclasses import dataclass

_BATCH_BITS = 32
"""Messages of one task in one micro-batch: up to 2^32."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a task to write its rows."""

    producer_name: str
    first: int
    """Sequence id of the first message in each topic."""
    number: int
    """Number by which messages without a key are spread over partitions; the same in each attempt."""
    has_same_order: bool = False
    """Whether each attempt has the rows in the same order, so that those that are published are the first ones."""

    @classmethod
    def of_stream(cls, query_id: str, batch_id: int, task: int) -> Attempt:
        """Return an attempt of task ``task``, from 0, of a micro-batch."""
        return cls(f"spark-{query_id}-{task}", batch_id << _BATCH_BITS, batch_id + task)

    @classmethod
    def of_write(cls, write_id: str, task: int) -> Attempt:
        """Return an attempt of a task of a batch write."""
        return cls(f"spark-{write_id}-{task}", 0, task)

    @property
    def last(self) -> int:
        """The highest sequence id that the task may use."""
        return self.first + (1 << _BATCH_BITS) - 1
