"""Times of edits, by a hybrid logical clock. Pure.

A timestamp follows the wall clock as long as that is ahead of all timestamps that the cluster has seen; otherwise a
counter orders it after them. So an edit that was made after seeing another one is newer, whatever the clocks say.
Concurrent edits are ordered by time, as in PIP-136, then by counter, then the lexicographically smaller cluster wins.

Kulkarni, Demirbas et al., "Logical Physical Clocks and Consistent Snapshots in Globally Distributed Databases", 2014.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Self

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import CLUSTER_NAME_LENGTH_MAX
from magnetar.base.names import is_longer, is_named_entity

FUTURE_MAX_S = 3_600.0
"""Maximum seconds by which a timestamp of another cluster may be ahead of the own clock. Later ones are refused.

A timestamp far in the future would win against all edits until then.
"""

TIME_MS_MAX = 2**53 - 1
"""Maximum time of a timestamp: the largest integer that every JSON parser reads exactly, in the year 287396."""

COUNTER_MAX = 2**31 - 1
"""Maximum counter of a timestamp. At one edit per microsecond it lasts for half an hour."""


@total_ordering
@dataclass(frozen=True, slots=True)
class Timestamp:
    """The time of an edit. A greater one wins. No two edits have equal timestamps: a cluster gives each only once."""

    time_ms: int
    """Milliseconds since the epoch."""
    counter: int
    cluster: str
    """The cluster in which the edit was made."""

    def __lt__(self, other: Timestamp) -> bool:
        """Return whether ``other`` wins."""
        return (self.time_ms, self.counter, other.cluster) < (other.time_ms, other.counter, self.cluster)

    def __gt__(self, other: Timestamp) -> bool:
        """Return whether this one wins; as fast as ``__lt__``, for records with many edits."""
        return other < self

    def __str__(self) -> str:
        """Return the text that names the edit: time, counter and cluster."""
        return f"{self.time_ms}.{self.counter}.{self.cluster}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the result of ``str``; raises ValueError."""
        time_ms, _, rest = text.partition(".")
        counter, _, cluster = rest.partition(".")
        if not (time_ms.isdecimal() and counter.isdecimal() and time_ms.isascii() and counter.isascii()):
            message = f"{text!r:.100} names no edit: expected time.counter.cluster, as the history shows it"
            raise ValueError(message)
        return cls.from_json([int(time_ms), int(counter), cluster])

    def to_json(self) -> list[int | str]:
        """Return time, counter and cluster."""
        return [self.time_ms, self.counter, self.cluster]

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Parse the result of ``to_json``; raises ValueError."""
        match value:
            case [int(time_ms), int(counter), str(cluster)] if not isinstance(time_ms, bool):
                if 0 <= time_ms <= TIME_MS_MAX and 0 <= counter <= COUNTER_MAX and is_cluster_name(cluster):
                    return cls(time_ms, counter, cluster)
        message = f"{value!r:.100} is not the timestamp of an edit: expected time, counter and cluster"
        raise ValueError(message)


@lru_cache(maxsize=1_000)
def is_cluster_name(text: str) -> bool:
    """Return whether ``text`` can be the name of a cluster."""
    return is_named_entity(text) and not is_longer(text, CLUSTER_NAME_LENGTH_MAX)


class HybridClock:
    """Gives the timestamps of one cluster. The newest one is stored with its edit, and passed in after a restart."""

    def __init__(self, cluster: str, newest: Timestamp | None = None) -> None:
        """Continue after ``newest``, the newest timestamp that was given or observed."""
        self._cluster = cluster
        self._time_ms, self._counter = (0, 0) if newest is None else (newest.time_ms, newest.counter)

    def next(self, now_ms: int) -> Timestamp:
        """Return a timestamp after all others that were given or observed; ``now_ms`` is the time of the wall clock."""
        if now_ms > self._time_ms:
            self._time_ms, self._counter = now_ms, 0
        elif self._counter < COUNTER_MAX:
            self._counter += 1
        else:
            self._time_ms, self._counter = self._time_ms + 1, 0
        return Timestamp(self._time_ms, self._counter, self._cluster)

    @property
    def newest(self) -> Timestamp:
        """The newest timestamp that was given or observed, under the own name."""
        return Timestamp(self._time_ms, self._counter, self._cluster)

    def observe(self, timestamp: Timestamp) -> None:
        """Note a timestamp of another cluster; the next own one is newer."""
        self._time_ms, self._counter = max((self._time_ms, self._counter), (timestamp.time_ms, timestamp.counter))


def check_time(timestamp: Timestamp, now_ms: int) -> None:
    """Raise RequestError if ``timestamp`` is too far in the future."""
    ahead_s = timestamp.time_ms / 1000 - now_ms / 1000
    if ahead_s > FUTURE_MAX_S:
        cluster = timestamp.cluster
        # Each edit of a cluster is newer than its earlier ones, also after its clock was set back.
        message = (
            f"an edit of cluster {cluster} is {ahead_s:.0f} s ahead of the clock here, more than {FUTURE_MAX_S:.0f} s "
            "are refused: set the clocks; a snapshot then repeats the edit. If the clock of "
            f"{cluster} was ahead, later edits of {cluster} are refused here too for {ahead_s - FUTURE_MAX_S:.0f} s: "
            "make them in another cluster as well"
        )
        raise RequestError(ServerError.NotAllowedError, message)
