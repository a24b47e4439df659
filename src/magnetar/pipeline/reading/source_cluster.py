"""The reader's state of one source cluster: its topics, their links, and the received entries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import LinkHeldError, LinkRestsError, MagnetarError, RequestError, ServerError
from magnetar.pipeline import foreign, limits
from magnetar.pipeline.connections.cluster import ClusterSession
from magnetar.pipeline.connections.topics import TopicWatch, namespace_of
from magnetar.pipeline.reading.attachments import Attachments
from magnetar.pipeline.reading.due_links import DueLinks
from magnetar.pipeline.reading.source_link import Close, Effect, Retry, SourceLink, Subscribe
from magnetar.pipeline.rows import Carried
from magnetar.wire.links import link_bucket
from magnetar.wire.message_id import Link, link_of, origin_of, position_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from magnetar.base.position import Position
    from magnetar.pipeline.options import ClusterAddress
    from magnetar.pipeline.reading.attachments import AttachedLink
    from magnetar.pipeline.reading.task import Task
    from magnetar.wire.links import LinkEnd
    from magnetar.wire.proto import pulsar_api_pb2 as pb


_GONE = {ServerError.TopicNotFound, ServerError.SubscriptionNotFound}
"""Refusals of SUBSCRIBE for a topic that does not exist, or is not replicated to the target."""


def _is_over(failure: Exception) -> bool:
    """Return whether a link needs no holder, until its source reports it as due: it rests, or its topic is gone."""
    return isinstance(failure, LinkRestsError) or (isinstance(failure, RequestError) and failure.code in _GONE)


class SourceCluster:
    """All links of one source to one target."""

    def __init__(self, task: Task, source: ClusterAddress) -> None:
        """Create the source cluster of ``task``; `start` connects."""
        self.source = source.name
        self.displacements = 0
        """Number of links that the next lease took over."""
        self.down_reason = "not connected yet"
        """Why the source is not connected; empty if it is."""
        self._task = task
        self._session = ClusterSession(task.loop, source.broker_url, self, task.rng, source.client_conf)
        self._topics = TopicWatch(task.loop, self._session.client, self._named, self._served)
        self.due = DueLinks(task, self._session.client, self._became_due)
        self._source_links: dict[str, SourceLink] = {}
        """By topic, the links that do not rest."""
        self._attachments = Attachments(self, task, self._session)
        self._unacknowledged: set[int] = set()

    @property
    def _is_foreign(self) -> bool:
        return self._session.is_foreign

    @property
    def live_links(self) -> int:
        """Return the number of links that hold a consumer or are subscribing."""
        return len(self._attachments)

    @property
    def parked(self) -> dict[str, str]:
        """Return the parked topics with the reasons."""
        return {
            topic: source_link.reason
            for topic, source_link in self._source_links.items()
            if source_link.reason and not source_link.live
        }

    @property
    def rivals(self) -> set[str]:
        """Return the other pipelines that hold links of this one."""
        rivals = {link.rival for link in self._source_links.values() if link.rival and not link.live}
        return rivals | {self.due.rival} if self.due.rival else rivals

    def start(self) -> None:
        """Connect, and start watching topics and checking for stalls."""
        self._session.start()
        self._topics.start()
        self._park_stalled()

    def close(self) -> None:
        """Close all connections."""
        self._attachments.close()
        self._topics.close()
        self.due.close()
        self._session.close()

    def pause(self, *, paused: bool) -> None:
        """Pause or resume reading from the source."""
        if paused:
            self._session.client.pause_reading()
        else:
            self._session.client.resume_reading()

    def serve(self, namespaces: Iterable[str]) -> None:
        """Replicate the topics of these namespaces, and stop replicating all others, unless the broker reports them."""
        self._topics.serve(namespaces)

    def attach(self) -> None:
        """Start every waiting link, and ask for those that need a holder."""
        if self._task.carrying:
            self.due.carry()
        for source_link in self._source_links.values():
            self._start(source_link)

    def detach(self) -> None:
        """Detach all links because the target is not connected; nothing stays buffered."""
        self.due.target_down()
        for source_link in self._source_links.values():
            self.carry_out(source_link, source_link.detach())

    def target_lost(self, topics: Collection[str]) -> None:
        """Report that the target has lost these topics; none if it may have lost any."""
        if self._task.carrying:
            self.due.carry(topics)

    def end_slot(self) -> None:
        """End the slot. A foreign source gives a link to the successor only after this task has released it."""
        if self._is_foreign:
            for attached in self._attachments:
                self.carry_out(attached.source_link, [*attached.source_link.acknowledge(), Close(attached.number)])
                attached.source_link.displaced()
                self.displacements += 1

    def confirmed(self, number: int, through: Position) -> None:
        """Record that the target holds all entries of an attachment up to ``through``."""
        attached = self._attachments.get(number)
        if attached is not None:
            self._attachments.opened(number)
            attached.source_link.confirmed(through, self._task.loop.time())
            self._moved(attached.source_link)

    def refused(self, number: int, reason: str, end: LinkEnd | None) -> None:
        """Record that the target refused an attachment; ``end`` is set for a gap."""
        attached = self._attachments.get(number)
        if attached is not None:
            source_link, rng = attached.source_link, self._task.rng
            self.carry_out(
                source_link, source_link.refused(reason, rng) if end is None else source_link.gap(reason, end, rng)
            )

    def cluster_up(self) -> None:
        """Start all links."""
        self.down_reason = ""
        if self.due.are_reported:
            self._topics.release()
        elif not self._topics.connected(self._task.target):
            self._task.poll_namespaces(self.source)
        self.attach()

    def cluster_down(self, reason: str) -> None:
        """Record the reason; the session reconnects."""
        self.down_reason = reason

    def take(self, attached: AttachedLink, message: pb.CommandMessage, entry: bytes) -> None:
        """Handle an entry."""
        assert attached.broker is not None
        source_link, position = attached.source_link, position_of(message.message_id)
        if not attached.broker.peer_is_magnetar:
            self._take_foreign(source_link, position, entry)
            return
        sizes, now = tuple(message.entry_sizes), self._task.loop.time()
        origin = origin_of(message) if sizes else None
        link, version = link_of(message), message.schema_version
        carried = Carried(source_link.attachment, position, link, entry, sizes, version, origin)
        if sizes and sum(sizes) != len(entry):
            reason = f"a run at {position} has {len(entry)} bytes, and states {sum(sizes)}"
            self.carry_out(source_link, source_link.refused(reason, self._task.rng))
            return
        if sizes:
            source_link.run_arrived(carried.last, len(entry), carried.entries, now)
        else:
            source_link.arrived(position, len(entry), now, is_marker=carried.is_marker)
        if carried.is_marker:
            self.carry_out(source_link, source_link.grant())
        self._task.carry(carried)

    def ended(self, attached: AttachedLink, failure: Exception) -> None:
        """Handle the end of an attachment by the source: final if the successor has the link, otherwise with a retry.

        If another pipeline holds the link, retries become less frequent, because it may end before this lease.
        """
        if self._attachments.get(attached.number) is not attached:
            return
        if self.due.are_reported and _is_over(failure):
            self._end(attached)
            return
        self._attachments.drop(attached.number)
        held = failure if isinstance(failure, LinkHeldError) else None
        is_successors = held is not None and held.pipeline is None
        if is_successors or (self._task.succeeded and isinstance(failure, RequestError)):
            attached.source_link.displaced()
            self.displacements += 1
        else:
            rival = "" if held is None else held.pipeline or ""
            self.carry_out(attached.source_link, attached.source_link.closed(str(failure), self._task.rng, rival))

    def _take_foreign(self, source_link: SourceLink, position: Position, entry: bytes) -> None:
        """Handle an entry of a foreign source, which sends all entries and counts messages."""
        try:
            wanted, messages = foreign.outgoing(entry, self._task.target)
        except MagnetarError as error:
            # Skipping the entry would lose it: the link stops until the source's log is repaired.
            self.carry_out(source_link, source_link.refused(f"entry {position}: {error}", self._task.rng))
            return
        if wanted is None:
            source_link.passed_over(position, messages, len(entry))
            self._moved(source_link)
        else:
            source_link.arrived(position, len(wanted), self._task.loop.time(), messages)
            self._task.carry(Carried(source_link.attachment, position, Link(), wanted))

    def _moved(self, source_link: SourceLink) -> None:
        """Request more entries if there is room, and acknowledge confirmed ones, at once if no more are in flight.

        So each marker has an ACK of its own, if no later entry follows: the source counts them.
        """
        self.carry_out(source_link, source_link.grant())
        if source_link.is_caught_up and not self._is_foreign:  # a client may wait for it
            self.carry_out(source_link, source_link.acknowledge())
            return
        if not self._unacknowledged:
            self._task.loop.call_later(limits.ACK_INTERVAL_SECONDS, self._acknowledge)
        self._unacknowledged.add(source_link.attachment.number)

    def _start(self, source_link: SourceLink) -> None:
        known = self._source_links.get(source_link.attachment.topic) is source_link
        is_late = self._is_foreign and self._task.succeeded
        if known and self._task.carrying and self._session.is_up and not is_late:
            self.carry_out(source_link, source_link.start(self._task.next_number()))

    def _forget(self, topic: str) -> None:
        source_link = self._source_links.pop(topic)
        self.carry_out(source_link, source_link.detach())

    def carry_out(self, source_link: SourceLink, effects: list[Effect]) -> None:
        """See AttachmentOwner."""
        for effect in effects:
            match effect:
                case Subscribe():
                    self._attachments.open(source_link)
                case Retry(seconds):
                    self._task.loop.call_later(seconds, partial(self._start, source_link))
                case Close(number):
                    self._attachments.drop(number)
                case _:
                    self._attachments.send(effect)

    def _acknowledge(self) -> None:
        numbers, self._unacknowledged = self._unacknowledged, set()
        for number in sorted(numbers):
            attached = self._attachments.get(number)
            if attached is not None:
                self.carry_out(attached.source_link, attached.source_link.acknowledge())

    def _park_stalled(self) -> None:
        now = self._task.loop.time()
        self._task.loop.call_later(limits.STALL_SECONDS / 8, self._park_stalled)
        for source_link in [attached.source_link for attached in self._attachments]:
            if source_link.stalled(now):
                reason = f"no receipt for {limits.STALL_SECONDS} s"
                self.carry_out(source_link, source_link.refused(reason, self._task.rng))

    def _became_due(self, topics: Collection[str], urgent: int) -> None:
        """Handle a report of links that need a holder; the first ``urgent`` ones have entries to carry."""
        for place, topic in enumerate(topics):
            source_link = self._source_links.get(topic)
            if source_link is None:
                self._add(topic, is_urgent=place < urgent)
                continue
            source_link.is_urgent = place < urgent
            if source_link.live:
                self._attachments.due(source_link)

    def _end(self, attached: AttachedLink) -> None:
        """Forget a link that needs no holder, unless the report that it is due came first."""
        ended = attached.source_link
        self._forget(ended.attachment.topic)
        if attached.is_due_again:
            self._add(ended.attachment.topic, is_urgent=ended.is_urgent)

    def _add(self, topic: str, *, is_urgent: bool = False) -> None:
        source_link = self._source_links[topic] = SourceLink(self.source, topic, self._task.budget)
        source_link.is_urgent = is_urgent
        self._start(source_link)

    def _served(self, namespaces: frozenset[str]) -> None:
        """Handle the list of namespaces: forget the links of all others."""
        for topic in [topic for topic in self._source_links if namespace_of(topic) not in namespaces]:
            self._forget(topic)

    def _named(self, namespace: str, topics: frozenset[str]) -> None:
        """Handle the list of topics of a namespace; those in other buckets are the business of other tasks."""
        topics = frozenset(topic for topic in topics if link_bucket(topic) in self._task.buckets)
        if self._is_foreign:
            topics = frozenset(topic for topic in topics if not foreign.is_system_topic(topic))
        for topic in [
            topic for topic in self._source_links if namespace_of(topic) == namespace and topic not in topics
        ]:
            self._forget(topic)
        for topic in sorted(topics - self._source_links.keys()):
            self._add(topic)
