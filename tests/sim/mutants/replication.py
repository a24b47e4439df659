"""Bugs in links and in the receiver."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.base.position import EARLIEST, Position
from magnetar.broker.replication import receiver
from magnetar.broker.replication.outbound.copies import Copies
from magnetar.broker.replication.outbound.lag import LinkLag
from magnetar.broker.replication.outbound.own_entries import OwnEntries
from magnetar.broker.replication.outbound.parking import Parking
from magnetar.broker.replication.outbound.target_position import TargetPosition
from magnetar.broker.topic.links import TopicLinks
from magnetar.client.connection import PulsarConnection
from magnetar.geo.origins.index import OriginIndex
from magnetar.geo.receiving import Verdict, judge
from magnetar.pipeline.reading.source_link import SourceLink
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.wire.entries.origin import Origin
    from tests.sim.mutants.base import Mutant


def duplicate_check_off_by_one(_: Any) -> Any:
    def mutant(last: Position | None, origin: Origin, *, marker: bool = False) -> Verdict:
        right = judge(last, origin, marker=marker)
        return Verdict.APPEND if right is Verdict.DUPLICATE and origin.position == last else right

    return mutant


def gap_taken_for_nothing_missing(_: Any) -> Any:
    def mutant(last: Position | None, origin: Origin, *, marker: bool = False) -> Verdict:
        right = judge(last, origin, marker=marker)
        return Verdict.APPEND if right is Verdict.GAP else right

    return mutant


def floor_forgotten(original: Any) -> Any:
    def mutant(
        self: OriginIndex, cluster: str, origin: Position, count: int, local: Position, floor: Position | None = None
    ) -> None:
        original(self, cluster, origin, count, local, None if floor is None else Position(0, -1))

    return mutant


def probe_forgotten(_: Any) -> Any:
    return lambda _self, _newest_before: EARLIEST


def unknown_backlog_told_as_zero(_: Any) -> Any:
    return property(lambda _self: 0)


def chosen_clusters_ignored(_: Any) -> Any:
    return lambda _entry: ()


def link_begun_at_the_end(_: Any) -> Any:
    def mutant(self: TopicLinks) -> Position:
        return self._topic.ledger.last_confirmed_entry

    return mutant


def confirmed_when_sent(original: Any) -> Any:
    def mutant(self: OwnEntries, consumer: Consumer, position: Position, entry: bytes, oldest: Position) -> bytes:
        frame: bytes = original(self, consumer, position, entry, oldest)
        self._link.confirm(position)
        return frame

    return mutant


def closed_link_not_tried_again(_: Any) -> Any:
    return lambda self, _reason, _rng, _rival="": self._leave()[:0]


def refused_link_not_tried_again(_: Any) -> Any:
    return lambda self, _reason, _rng: self._leave()


def gap_not_gone_back_over(_: Any) -> Any:
    return lambda self, reason, _last, rng: self.refused(reason, rng)


def lost_told_as_held(_: Any) -> Any:
    return lambda _self, _cluster, _position: None


def copies_kept(_: Any) -> Any:
    return lambda _self, _consumer: None


def returned_entries_forgotten(original: Any) -> Any:
    def mutant(self: OriginIndex, origin: Position, count: int, local: Position, floor: Position) -> None:
        seen = self.seen.copy()
        original(self, origin, count, local, floor)
        self.seen = seen

    return mutant


def delay_told_where_there_is_none(_: Any) -> Any:
    return lambda _self: 1


def size_not_checked(_: Any) -> Any:
    return property(lambda _self: 1 << 31)


def probe_not_sent(_: Any) -> Any:
    return lambda _self, _consumer, _place: None


def parked_reason_not_told(_: Any) -> Any:
    return lambda _self, _metadata: False


MUTANTS: dict[str, Mutant] = {
    "duplicate check off by one": (receiver, "judge", duplicate_check_off_by_one),
    "a gap taken for nothing missing": (receiver, "judge", gap_taken_for_nothing_missing),
    "a floor forgotten: claims what was not held": (OriginIndex, "append", floor_forgotten),
    "a target that lost its data believed complete": (TargetPosition, "to_verify", probe_forgotten),
    "an unknown replication backlog told as 0": (LinkLag, "backlog", unknown_backlog_told_as_zero),
    "the clusters that a message is meant for ignored": (wire_entry, "replicate_to", chosen_clusters_ignored),
    "a new link begun at the end of the log": (TopicLinks, "_start", link_begun_at_the_end),
    "an entry confirmed when it is sent": (OwnEntries, "_take", confirmed_when_sent),
    "a link that was closed not tried again": (SourceLink, "closed", closed_link_not_tried_again),
    "a link that was refused not tried again": (SourceLink, "refused", refused_link_not_tried_again),
    "a replication delay told though nothing waits": (LinkLag, "delay_s", delay_told_where_there_is_none),
    "messages that a cluster lost with its disk not counted": (OriginIndex, "newest_through", lost_told_as_held),
    "a frame sent that is too large for the target": (PulsarConnection, "frame_size_max", size_not_checked),
    "a probe of the target never sent": (OwnEntries, "send_probe", probe_not_sent),
    "the reason why a link is parked not told": (Parking, "take_over", parked_reason_not_told),
    "copies not sent back": (Copies, "begin", copies_kept),
    "entries that came back taken again": (OriginIndex, "append_returned", returned_entries_forgotten),
    "a link that does not go back over a gap": (SourceLink, "gap", gap_not_gone_back_over),
}
