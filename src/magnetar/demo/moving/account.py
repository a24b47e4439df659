"""What clients sent and got, by the phase of the demo. Pure, except for the lock."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from threading import Lock

BEFORE, SWITCH, ROLLBACK = "before", "switch", "rollback"
PHASES = (BEFORE, SWITCH, ROLLBACK)


@dataclass(slots=True)
class Account:
    """Messages by stream: those of one key of a topic, which are numbered from 1."""

    phase: str = BEFORE
    """The phase of the messages that are published now."""
    _sent: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By stream: the phase of each message with a receipt."""
    _received: dict[tuple[str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    """By subscription and stream: the numbers of the messages that arrived."""
    _newest: Counter[tuple[str, str]] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    """By phase: deliveries of messages that had been delivered before."""
    out_of_order: Counter[str] = field(default_factory=Counter)
    """By phase: first deliveries of messages after a later one of their stream."""
    _lock: Lock = field(default_factory=Lock)

    def next_number(self, stream: str) -> int:
        """Return the number of the next message of a stream."""
        return len(self._sent[stream]) + 1

    def sent(self, stream: str) -> None:
        """Note the receipt of the next message of a stream."""
        with self._lock:
            self._sent[stream].append(self.phase)

    def received(self, subscription: str, stream: str, number: int) -> None:
        """Note a delivery."""
        with self._lock:
            known = self._received[subscription, stream]
            if number in known:
                self.repeated[self.phase] += 1
            elif number < self._newest[subscription, stream]:
                self.out_of_order[self.phase] += 1
            known.add(number)
            self._newest[subscription, stream] = max(number, self._newest[subscription, stream])

    def messages(self, phase: str) -> int:
        """Return the number of messages that were published in a phase."""
        with self._lock:
            return sum(each.count(phase) for each in self._sent.values())

    def lost(self, phase: str, subscriptions: tuple[str, ...]) -> int:
        """Return the messages of a phase that a subscription has not got."""
        with self._lock:
            return sum(
                each == phase and number not in self._received[subscription, stream]
                for subscription in subscriptions
                for stream, phases in self._sent.items()
                for number, each in enumerate(phases, 1)
            )
