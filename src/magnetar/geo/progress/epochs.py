"""Epochs: what lets a subscription go back although its acknowledgements only ever grow."""

from __future__ import annotations

from typing import Final, NamedTuple

EPOCH_COUNTER_MAX: Final = 1 << 62
"""The highest counter that is taken from another cluster or a disk. Each seek adds one, so that none comes near it."""


class Epoch(NamedTuple):
    """The age of a subscription's state, totally ordered by ``(counter, cluster)``.

    A state with a higher epoch replaces one with a lower; equal epochs merge. ``cluster`` is the cluster whose
    seek or unsubscribe raised the epoch, so two clusters can never raise to the same one. It is empty for a state
    that was created: two clusters that create a subscription on their own must meet in the same epoch and merge.
    """

    counter: int
    cluster: str

    def __str__(self) -> str:
        """For messages: ``counter@cluster``."""
        return f"{self.counter}@{self.cluster}"

    def raised_by(self, cluster: str) -> Epoch:
        """The epoch of a seek or unsubscribe made in ``cluster`` on a state of this epoch."""
        assert cluster, "a raised epoch names its cluster"
        return Epoch(self.counter + 1, cluster)

    def created_after(self) -> Epoch:
        """The epoch of a subscription created again after a tombstone of this epoch."""
        return Epoch(self.counter + 1, "")


FIRST_EPOCH = Epoch(0, "")
"""The epoch of a subscription that nobody sought or deleted yet."""
