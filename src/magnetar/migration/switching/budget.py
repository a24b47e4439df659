"""How long a topic may take on its way to the other cluster. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Times in seconds, from the fence of a topic on."""

    total_s: float = 30.0
    """When it is exceeded, the topic is released and its clients go on where they were."""
    acknowledgements_s: float = 1.0
    """Clients have this long to acknowledge the messages that they hold."""

    def is_settled(self, unacknowledged: int | None, waited_s: float) -> bool:
        """Return whether no further acknowledgement is awaited; ``unacknowledged`` is None if it is unknown."""
        return unacknowledged == 0 or waited_s >= self.acknowledgements_s

    def is_exceeded(self, waited_s: float) -> bool:
        """Return whether the topic has taken too long."""
        return waited_s >= self.total_s
