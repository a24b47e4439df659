"""Coverage: the occurrences of each event and state, and the number of runs that had it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass
class Coverage:
    """The sum over all added runs."""

    worlds: int = 0
    seen_in: Counter[str] = field(default_factory=Counter)
    """By name, the number of runs with at least one occurrence."""
    times: Counter[str] = field(default_factory=Counter)
    """By name, the number of occurrences in all runs."""

    def add(self, counts: Mapping[str, int]) -> None:
        """Add the counts of one run: all names of events and states, with 0 for those that did not occur."""
        self.worlds += 1
        self.times.update(counts)
        self.seen_in.update({name: 1 for name, count in counts.items() if count})

    def rows(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, runs and occurrences; names that never occurred come first, then by name."""
        for name in sorted(self.times, key=lambda each: (self.times[each] > 0, each)):
            yield name, self.seen_in[name], self.times[name]
