"""What must be true, kept as simply as can be: entries by their text, acknowledgements entry by entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.epochs import FIRST_EPOCH
from magnetar.wire.entry import messages_in, parse_metadata, payload_of
from magnetar.wire.origin import origin_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.geo.epochs import Epoch

Starts = dict[str, Position]
"""For each origin, where a subscription starts in it; exclusive, and absent where it starts from the beginning."""


class Entry(NamedTuple):
    """An entry, wherever it is held."""

    text: str
    cluster: str
    position: Position
    """Where it was published, and its position there."""
    members: int

    @property
    def every(self) -> int:
        """A bit for each of its messages."""
        return (1 << self.members) - 1


def read_entry(cluster: str, position: Position, data: bytes) -> Entry:
    """What an entry of ``cluster``'s log says of itself."""
    metadata = parse_metadata(data)
    origin = origin_of(metadata)
    text, members = bytes(payload_of(data)).decode(), messages_in(data)
    if origin is None:
        return Entry(text, cluster, position, members)
    return Entry(text, origin.cluster, origin.position, members)


@dataclass
class SiteLog:
    """One cluster's log, as it was seen to be durable; nothing of it may ever change, only its oldest part may go."""

    entries: list[tuple[Position, Entry]] = field(default_factory=list)
    at: dict[Position, Entry] = field(default_factory=dict)
    places: dict[str, Position] = field(default_factory=dict)
    """Where each text is."""
    of: dict[str, list[Entry]] = field(default_factory=dict)
    """The entries of each origin, in the log's order."""

    def add(self, position: Position, entry: Entry) -> None:
        """Note the next entry."""
        self.entries.append((position, entry))
        self.at[position] = entry
        self.places[entry.text] = position
        self.of.setdefault(entry.cluster, []).append(entry)

    def starts_after(self, mark_delete: Position) -> Starts:
        """The starts of a subscription that begins after ``mark_delete``."""
        starts: Starts = {}
        for position, entry in self.entries:
            if position <= mark_delete:
                starts[entry.cluster] = max(entry.position, starts.get(entry.cluster, EARLIEST))
        return starts


@dataclass
class Promise:
    """What a cluster has confirmed of a subscription and may not forget: acknowledgements, in the newest epoch."""

    epoch: Epoch = FIRST_EPOCH
    acknowledged: dict[str, int] = field(default_factory=dict)
    """For each text a bit for each message."""

    def add(self, epoch: Epoch, acknowledged: Mapping[str, int]) -> None:
        """More was confirmed."""
        if epoch > self.epoch:
            self.epoch, self.acknowledged = epoch, {}
        if epoch == self.epoch:
            for text, mask in acknowledged.items():
                self.acknowledged[text] = self.acknowledged.get(text, 0) | mask


@dataclass
class Lifetime:
    """One epoch of one subscription: what anybody did in it."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    """For each text a bit for each message that a broker was asked to acknowledge."""
    starts: list[Starts] = field(default_factory=list)
    """Where it may start: it was created, or sought, there."""

    def acknowledge(self, text: str, mask: int) -> None:
        """A broker was asked to."""
        self.acknowledged[text] = self.acknowledged.get(text, 0) | mask

    def may_start_at(self, cluster: str, position: Position) -> bool:
        """Whether that is where somebody had it start."""
        return any(starts.get(cluster, EARLIEST) == position for starts in self.starts)


class Model:
    """All that is known of what was published and acknowledged."""

    def __init__(self, clusters: list[str]) -> None:
        """Nothing has happened yet."""
        self.logs = {cluster: SiteLog() for cluster in clusters}
        self.published: dict[str, list[Entry]] = {cluster: [] for cluster in clusters}
        """What each cluster published, in its order."""
        self.texts: dict[str, Entry] = {}
        self.receipts: dict[str, dict[str, Position]] = {cluster: {} for cluster in clusters}
        """By cluster, what producers got receipts for that were not compared with the log yet."""
        self.lifetimes: dict[tuple[str, Epoch], Lifetime] = {}
        self.promises: dict[tuple[str, str], Promise] = {}
        """By cluster and subscription."""
        self.tombstones: dict[str, list[Epoch]] = {}
        self._sought: dict[tuple[str, str], list[Starts]] = {}

    def lifetime(self, subscription: str, epoch: Epoch) -> Lifetime:
        """An epoch of a subscription; made when there is none."""
        found = self.lifetimes.get((subscription, epoch))
        if found is None:
            starts = self.sought_in(epoch.cluster, subscription) if epoch.cluster else []
            found = self.lifetimes[subscription, epoch] = Lifetime(starts=starts)
        return found

    def sought_in(self, cluster: str, subscription: str) -> list[Starts]:
        """Where clients in a cluster wanted a subscription to go."""
        return self._sought.setdefault((cluster, subscription), [])

    def promise(self, cluster: str, subscription: str) -> Promise:
        """What a cluster confirmed of a subscription; made when there is nothing."""
        return self.promises.setdefault((cluster, subscription), Promise())

    def is_buried(self, subscription: str, epoch: Epoch) -> bool:
        """Whether the subscription was deleted in this epoch or a later one."""
        return any(each >= epoch for each in self.tombstones.get(subscription, []))
