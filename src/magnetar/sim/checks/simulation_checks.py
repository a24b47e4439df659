"""Observes the frames of all brokers, and passes them to the checks of each topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.base.names import TopicName
from magnetar.broker.replication.outbound.replicator import Replicator
from magnetar.broker.replication.progress.progress_producer import ProgressProducer
from magnetar.broker.replication.receiver import ReplicatedProducer
from magnetar.broker.subscription.subscription import Subscription
from magnetar.sim.checks.topic_checks import TopicChecks
from magnetar.sim.virtual.tap import Tap
from magnetar.wire.frame import FrameDecoder
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.session.session import Session
    from magnetar.sim.scenario import Scenario
    from magnetar.sim.site import Site
    from magnetar.sim.trace import Trace
    from magnetar.sim.virtual.scheduler import Scheduler
    from magnetar.wire.frame import Frame

    Then = Callable[[], None]

_CONFIRMED = frozenset(
    {
        pb.BaseCommand.MESSAGE,
        pb.BaseCommand.ACK_RESPONSE,
        pb.BaseCommand.SEND_RECEIPT,
        pb.BaseCommand.SUCCESS,
        pb.BaseCommand.ERROR,
    }
)


class SimulationChecks(Tap["Site"]):
    """The checks of all topics. The first violation ends the run."""

    def __init__(self, scenario: Scenario, scheduler: Scheduler, trace: Trace) -> None:
        """Begin without frames."""
        self.scenario = scenario
        self.violation = ""
        """The first violated invariant, with details."""
        self.deliveries = 0
        self._scheduler = scheduler
        self._trace = trace
        self._decoders: dict[Session, FrameDecoder] = {}
        self._open: dict[tuple[Session, int, int], Then] = {}
        """By session, type of the response and its id: the function to call at the response."""
        self.topics = {name: TopicChecks(self, name) for name in scenario.topics}

    def violate(self, what: str) -> None:
        """Record a violation; only the first one counts."""
        if not self.violation:
            self.violation = what
            self.note("", "", f"VIOLATION {what}")

    def note(self, source: str, target: str, text: str) -> None:
        """Record an event in the trace."""
        self._trace.note(self._scheduler.now, source, target or source, text)

    def look_at_logs(self, site: Site) -> None:
        """Read the new durable entries of a cluster, and record what determines the effect of requests on them."""
        for name, topic in self.topics.items():
            topic.look_at_log(site.replicas[name])
        if not self.scenario.sync and site.disk.is_synced:
            for topic in self.topics.values():
                topic.unsynced.synced(site.name)

    def ended(self, site: Site, *, power_lost: bool) -> None:
        """Record the end of a cluster's broker, possibly with unsynced data lost; its logs were read before."""
        for name, topic in self.topics.items():
            topic.checker.ended(site.replicas[name])
            if power_lost:
                topic.unsynced.power_lost(site.name)

    def started(self, site: Site) -> None:
        """Check a cluster whose broker has recovered its disk and has not loaded any topic."""
        for name, topic in self.topics.items():
            topic.started(site.replicas[name])

    def check(self, sites: list[Site]) -> None:
        """Check everything about the clusters with a running broker."""
        for site in sites:
            self.look_at_logs(site)
        for site in sites:
            for name, topic in self.topics.items():
                topic.check(site.replicas[name])

    # -- frames to brokers ------------------------------------------------------------------------------------------

    def received(self, site: Site, session: Session, data: bytes) -> Then:
        """See Tap."""
        afterwards: list[Then] = []
        for name, topic in self.topics.items():
            topic.look_at(site.replicas[name])
        decoder = self._decoders.get(session)
        if decoder is None:
            decoder = self._decoders[session] = FrameDecoder()
        for frame in decoder.feed(data):
            then = self._receive(site, session, frame)
            if then is not None:
                afterwards.append(then)

        def done() -> None:
            for each in afterwards:
                each()

        return done

    def _receive(self, site: Site, session: Session, frame: Frame) -> Then | None:
        command = frame.command
        match command.type:
            case pb.BaseCommand.SEND:
                return self._receive_entry(site, session, command.send, frame.body)
            case pb.BaseCommand.SUBSCRIBE if command.subscribe.replicate_subscription_state:
                name = TopicName.parse(command.subscribe.topic)
                return self.topics[name].subscribed(site.replicas[name], command.subscribe.subscription)
            case pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES:
                refused = command.redeliverUnacknowledgedMessages
                subscription = _subscription(session, refused.consumer_id)
                if subscription is not None:
                    positions = [position_of(each) for each in refused.message_ids]
                    self.topics[subscription.topic.name].refused(session.consumers[refused.consumer_id], positions)
            case pb.BaseCommand.ACK:
                self._receive_ack(site, session, command.ack)
            case pb.BaseCommand.SEEK:
                self._receive_seek(site, session, command.seek)
            case pb.BaseCommand.UNSUBSCRIBE:
                return self._receive_unsubscribe(site, session, command.unsubscribe)
            case _:
                pass
        return None

    def _receive_ack(self, site: Site, session: Session, ack: pb.CommandAck) -> None:
        subscription = _subscription(session, ack.consumer_id)
        if subscription is not None:
            name = subscription.topic.name
            confirmed = self.topics[name].acknowledging(site.replicas[name], session, subscription, ack)
            if confirmed is not None and ack.HasField("request_id"):
                self._open[session, pb.BaseCommand.ACK_RESPONSE, ack.request_id] = confirmed

    def _receive_seek(self, site: Site, session: Session, seek: pb.CommandSeek) -> None:
        subscription = _subscription(session, seek.consumer_id)
        if subscription is not None:
            name = subscription.topic.name
            confirmed = self.topics[name].seeking(site.replicas[name], session, subscription, seek)
            if confirmed is not None:
                self._open[session, pb.BaseCommand.SUCCESS, seek.request_id] = confirmed

    def _receive_unsubscribe(self, site: Site, session: Session, command: pb.CommandUnsubscribe) -> Then | None:
        subscription = _subscription(session, command.consumer_id)
        if subscription is None:
            return None
        name = subscription.topic.name
        unsubscribing = self.topics[name].unsubscribed(site.replicas[name], subscription)
        if unsubscribing is None:
            return None
        self._open[session, pb.BaseCommand.SUCCESS, command.request_id] = unsubscribing.confirmed
        self._open[session, pb.BaseCommand.ERROR, command.request_id] = unsubscribing.refused
        return unsubscribing.handled

    def _receive_entry(self, site: Site, session: Session, send: pb.CommandSend, body: bytes) -> Then | None:
        producer = session.producers.get(send.producer_id)
        if isinstance(producer, ReplicatedProducer):
            name, updates = producer.topic.name, self.topics[producer.topic.name].updates
            applied = updates.came(site.replicas[name], producer.source, body) if updates is not None else None
            if applied is not None:
                self._open[session, pb.BaseCommand.SEND_RECEIPT, send.producer_id << 32 | send.sequence_id] = applied
        if not isinstance(producer, ProgressProducer):
            return None
        name = producer.topic.name
        dealt_with = self.topics[name].progress_came(site.replicas[name], body)
        if dealt_with is None:
            return None
        then, receipted = dealt_with
        self._open[session, pb.BaseCommand.SEND_RECEIPT, send.producer_id << 32 | send.sequence_id] = receipted
        return then

    # -- frames from brokers ----------------------------------------------------------------------------------------

    def sent(self, site: Site, session: Session, frame: bytes) -> None:
        """See Tap."""
        for each in FrameDecoder().feed(frame):
            command = each.command
            if command.type not in _CONFIRMED:
                continue
            confirmed: Then | None = None
            match command.type:
                case pb.BaseCommand.MESSAGE:
                    self._send_message(site, session, command.message, each.body)
                case pb.BaseCommand.ACK_RESPONSE:
                    response = command.ackResponse
                    confirmed = self._open.pop((session, command.type, response.request_id), None)
                    if response.HasField("error"):
                        confirmed = None
                case pb.BaseCommand.SUCCESS:
                    confirmed = self._open.pop((session, command.type, command.success.request_id), None)
                case pb.BaseCommand.ERROR:
                    confirmed = self._open.pop((session, command.type, command.error.request_id), None)
                case pb.BaseCommand.SEND_RECEIPT:
                    receipt = command.send_receipt
                    key = session, command.type, receipt.producer_id << 32 | receipt.sequence_id
                    confirmed = self._open.pop(key, None)
                    self._send_receipt(site, session, receipt)
            if confirmed is not None:
                confirmed()

    def committed(self, site: Site) -> None:
        """See Tap."""
        self.look_at_logs(site)

    def _send_message(self, site: Site, session: Session, message: pb.CommandMessage, entry: bytes) -> None:
        holder = session.consumers.get(message.consumer_id)
        link: Any = holder.subscription if holder is not None else None
        if isinstance(link, Replicator):
            updates = self.topics[link.topic.name].updates
            if updates is not None:
                updates.sent(site.replicas[link.topic.name], link.target, entry)
            return
        subscription = _subscription(session, message.consumer_id)
        if subscription is not None:
            name, consumer = subscription.topic.name, session.consumers[message.consumer_id]
            self.topics[name].dispatched(site.replicas[name], consumer, subscription, message)

    def _send_receipt(self, site: Site, session: Session, receipt: pb.CommandSendReceipt) -> None:
        producer = session.producers.get(receipt.producer_id)
        if producer is not None:
            name = producer.topic.name
            self.topics[name].receipts.given(site.replicas[name], producer, receipt)


def _subscription(session: Session, consumer_id: int) -> Subscription | None:
    consumer = session.consumers.get(consumer_id)
    found: Any = consumer.subscription if consumer is not None else None
    return found if isinstance(found, Subscription) else None
