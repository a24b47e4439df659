"""Listens to all brokers, keeps the model, and says what was against the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.base.errors import MagnetarError
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.broker.producer import LocalProducer
from magnetar.broker.progress import ProgressProducer
from magnetar.broker.subscription import Subscription
from magnetar.geo.progress_codec import decode_marker
from magnetar.sim.at_risk import AtRisk, LagPolicy
from magnetar.sim.checkers import Checker
from magnetar.sim.key_holders import KeyHolders
from magnetar.sim.lifetimes import Lifetimes
from magnetar.sim.model import Model
from magnetar.sim.site import Tap
from magnetar.wire import ack_set
from magnetar.wire.entry import payload_of
from magnetar.wire.frame import FrameDecoder
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.session import Session
    from magnetar.geo.progress import SubscriptionProgress
    from magnetar.sim.clients import Held, SimConsumer
    from magnetar.sim.model import Entry, Starts
    from magnetar.sim.scheduler import Scheduler
    from magnetar.sim.site import Site
    from magnetar.sim.story import Story
    from magnetar.wire.frame import Frame

_CONFIRMED = frozenset(
    {pb.BaseCommand.MESSAGE, pb.BaseCommand.ACK_RESPONSE, pb.BaseCommand.SEND_RECEIPT, pb.BaseCommand.SUCCESS}
)

_SHARING = frozenset({pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared})


class Referee(Tap):
    """What brokers hear makes the model; what they say is measured by it."""

    def __init__(
        self, clusters: list[str], scheduler: Scheduler, story: Story, lag_policy: LagPolicy | None = None
    ) -> None:
        """Nothing was said yet."""
        self.model = Model(clusters)
        self._at_risk = AtRisk(lag_policy, self.model) if lag_policy is not None else None
        self.checker = Checker(self.model, self.violate)
        self.violation = ""
        """The first rule that was broken, and how."""
        self.deliveries = 0
        self._lifetimes = Lifetimes(self.model, self.checker, self.note)
        self._holders = KeyHolders(self.checker.is_left)
        self._scheduler = scheduler
        self._story = story
        self._decoders: dict[Session, FrameDecoder] = {}
        self._open: dict[tuple[Session, int, int], Callable[[], None]] = {}
        """What an answer would confirm: by session, kind of the answer, and its id."""

    def violate(self, what: str) -> None:
        """A rule was broken."""
        if not self.violation:
            self.violation = what
            self.note("", "", f"VIOLATION {what}")

    def note(self, source: str, target: str, text: str) -> None:
        """Something is worth telling."""
        self._story.note(self._scheduler.now, source, target or source, text)

    def check(self, site: Site) -> None:
        """Check everything about one cluster."""
        self._lifetimes.look_at(site)
        self.checker.check(site)

    # -- what clients learn -------------------------------------------------------------------------------------------

    def receipted(self, cluster: str, text: str, position: Position) -> None:
        """Remember it: the cluster has to hold the entry there, now and after any crash."""
        self.model.receipts[cluster][text] = position

    def delivered(self, consumer: SimConsumer, held: Held) -> None:
        """Count it."""
        self.deliveries += 1
        self.note(consumer.cluster, consumer.machine, f"{consumer.subscription}: {held.text} ({held.remaining:b})")

    # -- what operators do --------------------------------------------------------------------------------------------

    def skips(self, site: Site, subscription: Subscription, count: int) -> Callable[[], None]:
        """The next ``count`` entries are acknowledged now; to be called once that is confirmed."""
        self.checker.look_at_log(site)
        return self._acknowledges(site, subscription, self._left_through(subscription, LATEST)[:count], "skips")

    def clears(self, site: Site, subscription: Subscription, through: Position) -> Callable[[], None]:
        """Everything up to and including ``through`` is acknowledged now; to be called once that is confirmed."""
        self.checker.look_at_log(site)
        return self._acknowledges(site, subscription, self._left_through(subscription, through), "clears")

    def _left_through(self, subscription: Subscription, through: Position) -> list[Entry]:
        entries = self.model.logs[subscription.environment.cluster].entries
        return [entry for at, entry in entries if at <= through and self.checker.is_left(subscription, entry)]

    def _acknowledges(
        self, site: Site, subscription: Subscription, entries: list[Entry], what: str
    ) -> Callable[[], None]:
        if subscription.progress is None:
            return lambda: None
        name, epoch = subscription.name, subscription.progress.state.epoch
        lifetime, promise = self.model.lifetime(name, epoch), self.model.promise(site.name, name)
        for entry in entries:
            lifetime.acknowledge(entry.text, entry.every)
        texts = " ".join(entry.text for entry in entries)
        self.note(site.name, "", f"{name}: an operator {what} {texts or 'nothing'} in epoch {epoch}")
        return lambda: promise.add(epoch, {entry.text: entry.every for entry in entries})

    # -- what brokers hear ------------------------------------------------------------------------------------------

    def heard(self, site: Site, session: Session, data: bytes) -> Callable[[], None]:
        """See Tap."""
        afterwards: list[Callable[[], None]] = []
        self._lifetimes.look_at(site)
        decoder = self._decoders.get(session)
        if decoder is None:
            decoder = self._decoders[session] = FrameDecoder()
        for frame in decoder.feed(data):
            then = self._hear(site, session, frame)
            if then is not None:
                afterwards.append(then)

        def done() -> None:
            for each in afterwards:
                each()

        return done

    def _hear(self, site: Site, session: Session, frame: Frame) -> Callable[[], None] | None:
        command = frame.command
        match command.type:
            case pb.BaseCommand.ACK:
                self._hear_ack(site, session, command.ack)
            case pb.BaseCommand.SEND:
                return self._hear_progress(site, session, command.send, frame.body)
            case pb.BaseCommand.SUBSCRIBE if command.subscribe.replicate_subscription_state:
                return self._lifetimes.subscribe(site, command.subscribe.subscription)
            case pb.BaseCommand.SEEK:
                self._hear_seek(site, session, command.seek)
            case pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES:
                self._hear_refused(session, command.redeliverUnacknowledgedMessages)
            case pb.BaseCommand.UNSUBSCRIBE:
                return self._lifetimes.unsubscribe(site, _subscription(session, command.unsubscribe.consumer_id))
            case _:
                pass
        return None

    def _hear_ack(self, site: Site, session: Session, ack: pb.CommandAck) -> None:
        subscription = _subscription(session, ack.consumer_id)
        if subscription is None or subscription.progress is None or site.topic is None:
            return
        cumulative = ack.ack_type == pb.CommandAck.Cumulative
        if cumulative and subscription.type in _SHARING:
            return  # who shares cannot acknowledge for others, in Pulsar neither
        self.checker.look_at_log(site)
        log, state = self.model.logs[site.name], subscription.progress.state
        lifetime, starts = self.model.lifetime(subscription.name, state.epoch), state.starts()
        first = site.topic.ledger.first_position  # what was trimmed may be wanted elsewhere: it is not for this cluster
        meant: dict[str, int] = {}
        for each in ack.message_id:
            position = position_of(each)
            entry = log.at.get(position)
            if entry is None or position < first:
                continue
            meant[entry.text] = entry.every & ~(ack_set.words_to_int(each.ack_set) if each.ack_set else 0)
            if cumulative:
                before = (other for at, other in log.entries if first <= at < position)
                meant.update((other.text, other.every) for other in before)
        for text, mask in meant.items():
            lifetime.acknowledge(text, mask)
        inside = {text: mask for text, mask in meant.items() if _is_inside(self.model.texts[text], starts)}
        texts = " ".join(f"{text}({mask:b})" for text, mask in list(inside.items())[-4:])
        self.note(session_name(session), site.name, f"{subscription.name}: ack {texts} in epoch {state.epoch}")
        if ack.HasField("request_id"):
            promise, epoch = self.model.promise(site.name, subscription.name), state.epoch
            self._open[session, pb.BaseCommand.ACK_RESPONSE, ack.request_id] = lambda: promise.add(epoch, inside)

    def _hear_refused(self, session: Session, refused: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        consumer = session.consumers.get(refused.consumer_id)
        if consumer is not None:
            self._holders.give_back(consumer, [position_of(each) for each in refused.message_ids])

    def _hear_progress(
        self, site: Site, session: Session, send: pb.CommandSend, body: bytes
    ) -> Callable[[], None] | None:
        producer = session.producers.get(send.producer_id)
        if not isinstance(producer, ProgressProducer) or site.topic is None:
            return None
        try:
            marker = decode_marker(bytes(payload_of(body)))
        except MagnetarError as error:
            self.violate(f"{site.name} was sent a progress marker that cannot be read: {error}")
            return None
        known = [(state, self._claimed(state)) for state in marker.states]
        told = ", ".join(
            f"{state.name}@{state.epoch}{' deleted' if state.deleted else ''}: {len(claims)}" for state, claims in known
        )
        self.note(marker.source_cluster, site.name, f"progress {told}")
        for state, claims in known:  # what a cluster tells the others it has itself, for good
            self.model.promise(marker.source_cluster, state.name).add(state.epoch, claims)

        def confirmed() -> None:
            for state, claims in known:
                promise = self.model.promise(site.name, state.name)
                promise.add(state.epoch, {} if state.deleted else claims)

        self._open[session, pb.BaseCommand.SEND_RECEIPT, send.producer_id << 32 | send.sequence_id] = confirmed
        epochs = {
            each.name: each.progress.state.epoch
            for each in site.topic.subscriptions.values()
            if each.progress is not None
        }
        return lambda: self._lifetimes.outlived(site, epochs)

    def _claimed(self, state: SubscriptionProgress) -> dict[str, int]:
        """What a state on its way says is acknowledged, entry by entry."""
        claims: dict[str, int] = {}
        for cluster, origin in state.origins.items():
            for entry in self.model.published.get(cluster, []):
                if entry.position in origin.acknowledged:
                    claims[entry.text] = entry.every
                else:
                    left = origin.partial.get(entry.position)
                    if left is not None:
                        claims[entry.text] = entry.every & ~left
        return claims

    def _hear_seek(self, site: Site, session: Session, seek: pb.CommandSeek) -> None:
        subscription = _subscription(session, seek.consumer_id)
        if subscription is None or subscription.progress is None or site.topic is None:
            return
        self.checker.look_at_log(site)
        ledger, target = site.topic.ledger, position_of(seek.message_id)
        before_first = site.topic.log.before_first()
        through = (
            ledger.last_confirmed_entry if target > ledger.last_confirmed_entry else ledger.previous_position(target)
        )
        epoch = subscription.progress.state.epoch
        raised, before = epoch.raised_by(site.name), self.model.lifetime(subscription.name, epoch)
        self.note(session_name(session), site.name, f"{subscription.name}: seek to {target} in epoch {epoch}")
        mark_delete = max(before_first, through)
        self.model.begin_lifetime(subscription.name, raised).sought(
            before,
            self.model.logs[site.name],
            ledger.first_position,
            mark_delete,
            to_end=mark_delete >= ledger.last_confirmed_entry,
        )
        promise = self.model.promise(site.name, subscription.name)
        self._open[session, pb.BaseCommand.SUCCESS, seek.request_id] = lambda: promise.add(raised, {})

    # -- what brokers say -------------------------------------------------------------------------------------------

    def said(self, site: Site, session: Session, frame: bytes) -> None:
        """See Tap."""
        for each in FrameDecoder().feed(frame):
            command = each.command
            if command.type not in _CONFIRMED:
                continue
            confirmed: Callable[[], None] | None = None
            match command.type:
                case pb.BaseCommand.MESSAGE:
                    self._check_dispatched(site, session, command.message)
                case pb.BaseCommand.ACK_RESPONSE:
                    response = command.ackResponse
                    confirmed = self._open.pop((session, command.type, response.request_id), None)
                    if response.HasField("error"):
                        confirmed = None
                case pb.BaseCommand.SUCCESS:
                    confirmed = self._open.pop((session, command.type, command.success.request_id), None)
                case pb.BaseCommand.SEND_RECEIPT:
                    receipt = command.send_receipt
                    key = session, command.type, receipt.producer_id << 32 | receipt.sequence_id
                    confirmed = self._open.pop(key, None)
                    self._check_lag(site, session, receipt)
            if confirmed is not None:
                confirmed()

    def _check_lag(self, site: Site, session: Session, receipt: pb.CommandSendReceipt) -> None:
        """L: what has a receipt and is in too few other clusters does not exceed the bound."""
        if self._at_risk is None:
            return
        self.checker.look_at_log(site)  # what others send has a receipt only once it is in this log, for them to count
        producer = session.producers.get(receipt.producer_id)
        if not isinstance(producer, LocalProducer) or site.topic is None:
            return
        text = f"{site.name}-{producer.options.name}-{receipt.sequence_id}"
        unsafe, policy = self._at_risk.receipted(site.name, text), self._at_risk.policy
        if len(unsafe) > policy.messages and not site.topic.is_closing:
            self.violate(
                f"L: {site.name} gave a receipt for {text}: {len(unsafe)} are in fewer than {policy.copies} other "
                f"clusters, and {policy.messages} may be: {unsafe[-5:]}"
            )

    def _check_dispatched(self, site: Site, session: Session, message: pb.CommandMessage) -> None:
        """P1, P3: what is sent to a consumer is durable, and nobody is known here to have acknowledged it."""
        subscription = _subscription(session, message.consumer_id)
        if subscription is None or subscription.progress is None:
            return
        self.checker.look_at_log(site)
        position = position_of(message.message_id)
        entry = self.model.logs[site.name].at.get(position)
        where = f"{position} of {subscription.name} in {site.name}"
        if entry is None:
            self.violate(f"P1: {where} was sent to a consumer before it was durable")
            return
        sent = ack_set.words_to_int(message.ack_set) if message.ack_set else entry.every
        if sent & ~self.checker.left(site, subscription, entry):
            self.violate(f"P3: {where}, {entry.text}, was sent to a consumer though it is acknowledged here")
        held = self._holders.send(session.consumers[message.consumer_id], subscription, position, entry)
        if held is not None:
            self.violate(f"K: {where}, {entry.text}, was sent to a consumer while another holds {held.text} of its key")
        promise = self.model.promise(site.name, subscription.name)
        if subscription.progress.state.epoch == promise.epoch and sent & promise.acknowledged.get(entry.text, 0):
            self.violate(f"P3: {where}, {entry.text}, was sent again after its acknowledgement was confirmed here")


def _subscription(session: Session, consumer_id: int) -> Subscription | None:
    consumer = session.consumers.get(consumer_id)
    found: Any = consumer.subscription if consumer is not None else None
    return found if isinstance(found, Subscription) else None


def _is_inside(entry: Entry, starts: Starts) -> bool:
    return entry.position > starts.get(entry.cluster, EARLIEST)


def session_name(session: Session) -> str:
    """The machine that is connected."""
    return session.address.strip("/").partition(":")[0]
