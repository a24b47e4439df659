"""Coverage: how often each event and each state occurred in how many worlds. One that never did is seen at a glance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass
class Coverage:
    """The sum over the worlds that were added."""

    worlds: int = 0
    seen_in: Counter[str] = field(default_factory=Counter)
    """In how many worlds each occurred."""
    times: Counter[str] = field(default_factory=Counter)
    """How often each occurred, in all worlds together."""

    def add(self, counts: Mapping[str, int]) -> None:
        """Add what occurred in one world: every event and state that there is, 0 for one that did not occur."""
        self.worlds += 1
        self.times.update(counts)
        self.seen_in.update({name: 1 for name, count in counts.items() if count})

    def rows(self) -> Iterator[tuple[str, int, int]]:
        """Name, worlds and occurrences of each; those that never occurred come first, then in the order of names."""
        for name in sorted(self.times, key=lambda each: (self.times[each] > 0, each)):
            yield name, self.seen_in[name], self.times[name]
