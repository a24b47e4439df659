"""Epochs, which let a subscription go back although its acknowledgements only grow."""

from __future__ import annotations

from typing import Final, NamedTuple

EPOCH_COUNTER_MAX: Final = 1 << 62
"""The highest counter accepted from another cluster or a disk. Each seek adds one, so none comes near it."""


class Epoch(NamedTuple):
    """The version of a subscription's state, totally ordered by ``(counter, cluster)``.

    A state with a higher epoch replaces one with a lower; states with equal epochs merge. ``cluster`` is the cluster
    whose seek or unsubscribe raised the epoch, so two clusters can never raise to the same epoch. It is empty after a
    creation: two clusters that create a subscription independently must get the same epoch and merge.
    """

    counter: int
    cluster: str

    def __str__(self) -> str:
        """Return ``counter@cluster``."""
        return f"{self.counter}@{self.cluster}"

    def raised_by(self, cluster: str) -> Epoch:
        """Return the epoch after a seek or unsubscribe in ``cluster`` on a state of this epoch."""
        assert cluster, "a raised epoch names its cluster"
        return Epoch(self.counter + 1, cluster)

    def created_after(self) -> Epoch:
        """Return the epoch of a subscription created again after a tombstone of this epoch."""
        return Epoch(self.counter + 1, "")


FIRST_EPOCH = Epoch(0, "")
"""The epoch of a subscription that was never sought or deleted."""
