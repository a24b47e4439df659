"""Clients of the simulation: they reconnect, send again, and do what their users would do, at random times."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.scheduler import MachineLoop
from magnetar.sim.site import PORT, TOPIC
from magnetar.wire import ack_set, commands
from magnetar.wire.connection import Connection, Role
from magnetar.wire.entry import build_entry, messages_in, payload_of
from magnetar.wire.frame import encode_command
from magnetar.wire.message_id import message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.sim.network import Network
    from magnetar.sim.scheduler import Scheduler
    from magnetar.wire.frame import Frame

Shared = pb.CommandSubscribe.Shared
Failover = pb.CommandSubscribe.Failover
Key_Shared = pb.CommandSubscribe.Key_Shared

RECONNECT_S = (0.05, 0.8)
"""How long a client waits before it tries again."""

PERMITS = 20
"""Messages that a consumer asks for in advance."""


class Witness(Protocol):
    """Who is told what clients learn."""

    def receipted(self, cluster: str, text: str, position: Position) -> None:
        """A producer got a receipt."""
        ...

    def delivered(self, consumer: SimConsumer, held: Held) -> None:
        """A consumer got a message."""
        ...

    def note(self, source: str, target: str, text: str) -> None:
        """Something is worth telling."""
        ...


class Peer(asyncio.Protocol):
    """A client's connection: it ends with whatever goes wrong on it."""

    def __init__(self, client: SimClient, now: float) -> None:
        """Belong to ``client``."""
        self._client = client
        self._wire = Connection(Role.CLIENT, now=now)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce the client."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(commands.connect(client_version="simulated"))

    def data_received(self, data: bytes) -> None:
        """Hand on what came."""
        for frame in self._wire.receive(data, self._client.loop.time()):
            if frame.command.type == pb.BaseCommand.CONNECTED:
                self._client.connected(self)
            else:
                self._client.heard(self, frame)
        self.say(self._wire.take_output())

    def connection_lost(self, exc: Exception | None) -> None:
        """Have the client connect again."""
        del exc
        self._client.lost(self)

    def say(self, data: bytes) -> None:
        """Send bytes."""
        if self._transport is not None and data:
            self._transport.write(data)

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()


class SimClient:
    """What producers and consumers share: a connection that is made again whenever it is lost."""

    def __init__(self, name: str, cluster: str, scheduler: Scheduler, network: Network, witness: Witness) -> None:
        """Connect to ``cluster``, from a machine there."""
        self.name = name
        self.cluster = cluster
        self.loop = MachineLoop(scheduler, f"{cluster}.{name}", network)
        self.peer: Peer | None = None
        self.witness = witness
        self.stopped = False
        self._chance = network.chance
        self._request_ids = 0
        self._connecting = False
        self.connect()

    @property
    def machine(self) -> str:
        """The name of its machine."""
        return self.loop.name

    def connect(self) -> None:
        """Connect, unless that is under way."""
        if self.peer is None and not self._connecting and not self.stopped:
            self._connecting = True
            self.loop.create_task(self._connect())

    def stop(self) -> None:
        """Leave for good."""
        self.stopped = True
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection."""
        peer, self.peer = self.peer, None
        if peer is not None:
            peer.close()

    def request_id(self) -> int:
        """A request id that was not used yet."""
        self._request_ids += 1
        return self._request_ids

    def say(self, *frames: bytes) -> None:
        """Send frames, if there is a connection."""
        if self.peer is not None:
            self.peer.say(b"".join(frames))

    def again(self, work: Callable[[], None]) -> None:
        """Do ``work`` after a while."""
        self.loop.call_later(self._chance.uniform(*RECONNECT_S), work)

    async def _connect(self) -> None:
        try:
            await self.loop.create_connection(lambda: Peer(self, self.loop.time()), self.cluster, PORT)
        except OSError:
            self.again(self.connect)
        finally:
            self._connecting = False

    def connected(self, peer: Peer) -> None:
        """The broker has greeted."""
        if self.peer is not None or self.stopped:
            peer.close()
            return
        self.peer = peer
        self.opened()

    def lost(self, peer: Peer) -> None:
        """The connection is gone."""
        if self.peer is peer:
            self.peer = None
            self.closed()
            self.again(self.connect)
        elif self.peer is None:
            self.again(self.connect)

    def heard(self, peer: Peer, frame: Frame) -> None:
        """A command came."""
        if peer is self.peer:
            self.take(frame)

    def opened(self) -> None:
        """There is a connection."""
        raise NotImplementedError

    def closed(self) -> None:
        """There is none any more."""
        raise NotImplementedError

    def take(self, frame: Frame) -> None:
        """Deal with a command."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Unsent:
    """An entry that has no receipt."""

    sequence_id: int
    text: str
    members: int
    entry: bytes


class SimProducer(SimClient):
    """Sends again, in order and with the same sequence ids, what has no receipt."""

    def __init__(self, name: str, cluster: str, scheduler: Scheduler, network: Network, witness: Witness) -> None:
        """Publish to ``cluster``."""
        self.pending: deque[Unsent] = deque()
        self._next_sequence_id = 0
        self._ready = False
        super().__init__(name, cluster, scheduler, network, witness)

    def publish(self, members: int, now_ms: int, deliver_at_ms: int = 0, key: str = "") -> str:
        """Publish one entry, with a key unless that is empty; returns what is in it."""
        first = self._next_sequence_id
        self._next_sequence_id += members
        text = f"{self.cluster}-{self.name}-{first}"
        metadata = pb.MessageMetadata(producer_name=self.name, sequence_id=first, publish_time=now_ms)
        if members > 1:
            metadata.num_messages_in_batch = members
            metadata.highest_sequence_id = first + members - 1
        if deliver_at_ms:
            metadata.deliver_at_time = deliver_at_ms
        if key:
            metadata.partition_key = key
        unsent = Unsent(first, text, members, build_entry(metadata, text.encode()))
        self.pending.append(unsent)
        if self._ready:
            self._send(unsent)
        return text

    def send_again(self) -> None:
        """Send everything again that has no receipt, as a client does that was not patient enough."""
        if self._ready:
            self._ready = False
            self.disconnect()
            self.again(self.connect)

    def opened(self) -> None:
        """Open the producer."""
        self._ready = False
        body = pb.CommandProducer(
            topic=str(TOPIC),
            producer_id=1,
            request_id=self.request_id(),
            producer_name=self.name,
            user_provided_producer_name=True,
        )
        self.say(commands.encode(body))

    def closed(self) -> None:
        """Wait for the next connection."""
        self._ready = False

    def take(self, frame: Frame) -> None:
        """Count receipts; with any refusal, begin again."""
        command = frame.command
        match command.type:
            case pb.BaseCommand.PRODUCER_SUCCESS:
                self._ready = True
                for unsent in self.pending:
                    self._send(unsent)
            case pb.BaseCommand.SEND_RECEIPT if self._ready:
                self._receipt(command.send_receipt)
            case pb.BaseCommand.SEND_ERROR | pb.BaseCommand.ERROR:
                self._ready = False
                self.disconnect()
                self.again(self.connect)
            case pb.BaseCommand.CLOSE_PRODUCER:
                self._ready = False
                self.again(self._reopen)
            case _:
                pass

    def _reopen(self) -> None:
        if self.peer is not None and not self._ready:
            self.opened()

    def _receipt(self, receipt: pb.CommandSendReceipt) -> None:
        unsent = self.pending.popleft()
        assert receipt.sequence_id == unsent.sequence_id, (self.name, receipt.sequence_id, unsent)
        self.witness.receipted(self.cluster, unsent.text, position_of(receipt.message_id))

    def _send(self, unsent: Unsent) -> None:
        body = pb.CommandSend(producer_id=1, sequence_id=unsent.sequence_id, num_messages=unsent.members)
        if unsent.members > 1:
            body.highest_sequence_id = unsent.sequence_id + unsent.members - 1
        self.say(encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND, send=body), unsent.entry))


@dataclass
class Held:
    """An entry that a consumer has."""

    position: Position
    text: str
    members: int
    remaining: int
    """A bit for each member that it has not acknowledged."""


class SimConsumer(SimClient):
    """Takes part in a replicated subscription."""

    def __init__(
        self,
        name: str,
        place: tuple[str, str],
        kind: pb.CommandSubscribe.SubType.ValueType,
        world: tuple[Scheduler, Network, Witness],
        *,
        earliest: bool,
    ) -> None:
        """Subscribe in the cluster and to the subscription that ``place`` names."""
        cluster, self.subscription = place
        self.kind = kind
        self.held: dict[Position, Held] = {}
        self.ready = False
        self._earliest = earliest
        self._consumer_id = 0
        self._used = 0
        super().__init__(name, cluster, *world)

    # -- what its user does -----------------------------------------------------------------------------------------

    def acknowledge(self, chosen: list[Held], *, confirmed: bool) -> None:
        """Acknowledge entries one by one, whole."""
        ids = [message_id(held.position) for held in chosen]
        for held in chosen:
            self.held.pop(held.position, None)
        self._ack(ids, confirmed=confirmed, cumulative=False)

    def acknowledge_member(self, held: Held, member: int, *, confirmed: bool) -> None:
        """Acknowledge one message of a batch."""
        held.remaining &= ~(1 << member)
        if not held.remaining:
            self.acknowledge([held], confirmed=confirmed)
            return
        data = message_id(held.position)
        data.batch_index, data.batch_size = member, held.members
        full = ack_set.all_remaining(held.members) & ~(1 << member)
        data.ack_set.extend(ack_set.int_to_words(full))
        self._ack([data], confirmed=confirmed, cumulative=False)

    def acknowledge_through(self, held: Held, *, confirmed: bool) -> None:
        """Acknowledge everything up to and including an entry."""
        self.held = {position: each for position, each in self.held.items() if position > held.position}
        self._ack([message_id(held.position)], confirmed=confirmed, cumulative=True)

    def refuse(self, chosen: list[Held]) -> None:
        """Want entries again."""
        for held in chosen:
            self.held.pop(held.position, None)
        ids = [message_id(held.position) for held in chosen]
        self.say(
            commands.redeliver_unacknowledged_messages(consumer_id=self._consumer_id, message_ids=ids),
            commands.flow(consumer_id=self._consumer_id, message_permits=max(1, len(ids))),
        )

    def seek(self, position: Position = EARLIEST) -> None:
        """Go elsewhere."""
        self.say(commands.seek(consumer_id=self._consumer_id, request_id=self.request_id(), position=position))

    def unsubscribe(self) -> None:
        """Delete the subscription, and leave."""
        self.say(commands.unsubscribe(consumer_id=self._consumer_id, request_id=self.request_id()))
        self.stopped = True
        self.loop.call_later(1.0, self.disconnect)

    # -- what it does by itself -------------------------------------------------------------------------------------

    def opened(self) -> None:
        """Subscribe."""
        self._consumer_id += 1
        self._used = 0
        self.held.clear()
        self.ready = False
        body = pb.CommandSubscribe(
            topic=str(TOPIC),
            subscription=self.subscription,
            subType=self.kind,
            consumer_id=self._consumer_id,
            request_id=self.request_id(),
            consumer_name=self.name,
            initialPosition=pb.CommandSubscribe.Earliest if self._earliest else pb.CommandSubscribe.Latest,
            replicate_subscription_state=True,
        )
        self.say(commands.subscribe(body))

    def closed(self) -> None:
        """What it held is somebody else's now."""
        self.held.clear()
        self.ready = False

    def take(self, frame: Frame) -> None:
        """Keep messages, subscribe again when told to."""
        command = frame.command
        match command.type:
            case pb.BaseCommand.SUCCESS if not self.ready and not self.stopped:
                self.ready = True
                self.say(commands.flow(consumer_id=self._consumer_id, message_permits=PERMITS))
            case pb.BaseCommand.MESSAGE if command.message.consumer_id == self._consumer_id:
                self._receive(command.message, frame.body)
            case pb.BaseCommand.ERROR if not self.ready:
                self.again(self._reopen)
            case pb.BaseCommand.CLOSE_CONSUMER if command.close_consumer.consumer_id == self._consumer_id:
                self.closed()
                self.again(self._reopen)
            case _:
                pass

    def _reopen(self) -> None:
        if self.peer is not None and not self.ready and not self.stopped:
            self.opened()

    def _receive(self, message: pb.CommandMessage, entry: bytes) -> None:
        position, members = position_of(message.message_id), messages_in(entry)
        remaining = ack_set.words_to_int(message.ack_set) if message.ack_set else ack_set.all_remaining(members)
        held = Held(position, bytes(payload_of(entry)).decode(), members, remaining)
        self.held[position] = held
        self._used += remaining.bit_count()
        self.witness.delivered(self, held)
        if self._used >= PERMITS // 2:
            self.say(commands.flow(consumer_id=self._consumer_id, message_permits=self._used))
            self._used = 0

    def _ack(self, ids: list[pb.MessageIdData], *, confirmed: bool, cumulative: bool) -> None:
        request_id = self.request_id() if confirmed else None
        self.say(
            commands.ack(consumer_id=self._consumer_id, message_ids=ids, cumulative=cumulative, request_id=request_id)
        )
