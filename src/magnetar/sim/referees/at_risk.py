"""Bounded lag: how much of what a cluster gave receipts for is in too few others (docs/guides/protection.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.sim.referees.model import Model
    from magnetar.sim.scenario import LagPolicy


class AtRisk:
    """The entries with receipts that are not safe, as the logs and the brokers' frames tell it."""

    def __init__(self, policy: LagPolicy, model: Model) -> None:
        """Nothing has a receipt."""
        self.policy = policy
        self._model = model
        self._unsafe: dict[str, list[str]] = {}

    def receipted(self, cluster: str, text: str) -> list[str]:
        """A cluster gives a receipt for an entry of its own; returns what is at risk there from now on."""
        unsafe = self._unsafe.setdefault(cluster, [])
        if text not in unsafe:
            unsafe.append(text)
        unsafe[:] = [each for each in unsafe if not self._is_safe(cluster, each)]
        return unsafe

    def lose(self, cluster: str) -> None:
        """A cluster lost the topic: nothing of its own is at risk any more."""
        self._unsafe.pop(cluster, None)

    def _is_safe(self, cluster: str, text: str) -> bool:
        entry = self._model.texts[text]
        if text in self._model.unsynced:
            return True  # it is not in the log any more
        copies = sum(
            text in ever or not entry.is_for(name) for name, ever in self._model.ever.items() if name != cluster
        )
        return copies >= self.policy.copies
