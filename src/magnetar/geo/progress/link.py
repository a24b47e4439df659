"""Progress links: durable acknowledgements of subscriptions, sent from broker to broker. The only I/O of ``geo``."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.base.life import Life
from magnetar.base.parts import Part
from magnetar.base.tasks import start_task
from magnetar.client.connection import PulsarConnection
from magnetar.geo.progress.codec import encode_markers
from magnetar.geo.progress.confirmations import Confirmations
from magnetar.wire.entries import markers
from magnetar.wire.links import LIFE_METADATA, progress_producer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from magnetar.base.world import Clock
    from magnetar.client.options import PeerAddress
    from magnetar.client.producer import Producer
    from magnetar.geo.progress.state import SubscriptionProgress

log = structlog.get_logger(__name__)

RETRY_DELAY_MIN_S: Final = 0.1
RETRY_DELAY_MAX_S: Final = 5.0
"""Maximum delay before a lost link is reopened; the delay doubles, with jitter."""

UNABLE_PEER_DELAY_S: Final = 60.0
"""Delay before a peer without support for progress markers is tried again."""

NO_PROGRESS: Final = (
    "{version} takes no progress markers: a subscription follows there by snapshots (PIP-33), if that cluster "
    "replicates the topic to here. They carry up to where everything is acknowledged, about once a second: a "
    "consumer that moves there receives again what was acknowledged later, or beyond a message that is not"
)
"""The fallback for a cluster that is not Magnetar, for log and statistics."""

REQUEST_TIMEOUT_S: Final = 10.0
"""Maximum time for a peer's response, after which the link counts as lost."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """The timing of progress links."""

    interval_s: float
    full_state_interval_s: float
    at_risk_after_s: float = 1.0
    """Seconds until unconfirmed acknowledgements count as late."""
    life: Life | None = None
    """The life of this cluster, which is sent to peers."""


class ProgressLinks:
    """The connections that the progress links of all topics share: one to each peer."""

    def __init__(
        self, cluster: str, address_of: Callable[[str], PeerAddress | None], clock: Clock, options: LinkOptions
    ) -> None:
        """Create links from ``cluster``; ``address_of`` returns the address of a peer, None if it is unknown."""
        self.cluster = cluster
        self.clock = clock
        self.options = options
        self.jitter = random.Random(cluster)  # noqa: S311 - spreads retries, protects nothing
        self._address_of = address_of
        self._connections: dict[str, PulsarConnection] = {}
        self._addresses: dict[str, PeerAddress] = {}
        """The address of each connection."""
        self._opening: dict[str, asyncio.Lock] = {}
        self._unable: set[str] = set()

    async def connection(self, peer: str) -> PulsarConnection:
        """Return the open connection to ``peer``; raises OSError or MagnetarError if that is not possible."""
        async with self._opening.setdefault(peer, asyncio.Lock()):
            existing = self._connections.get(peer)
            if existing is not None and existing.failure is None:
                return existing
            address = self._address_of(peer)
            if address is None:
                message = (
                    f"cluster {peer} has no brokerServiceUrl, or with TLS no brokerServiceUrlTls: set one with "
                    f"`magnetar clusters update {peer}`"
                )
                raise MagnetarError(message)
            connection = await PulsarConnection.open(address.url, address.options)
            if self._address_of(peer) != address:
                connection.close()
                message = f"cluster {peer} has moved"
                raise MagnetarError(message)
            self._connections[peer], self._addresses[peer] = connection, address
            return connection

    def address_changed(self, peer: str) -> None:
        """Close the connection to ``peer`` if its URL has changed; its links reconnect."""
        connection = self._connections.get(peer)
        if connection is None or self._address_of(peer) == self._addresses[peer]:
            return
        log.info("peer_address_changed", peer=peer, before=self._addresses[peer].url)
        del self._connections[peer]
        connection.close()

    def unavailable(self, peer: str, connection: PulsarConnection) -> str:
        """Return and log the reason why ``peer`` does not support exact progress; empty if it does."""
        if connection.peer_is_magnetar:
            self._unable.discard(peer)
            return ""
        reason = NO_PROGRESS.format(version=connection.peer_version)
        if peer not in self._unable:
            self._unable.add(peer)
            log.warning("exact_progress_unavailable", peer=peer, reason=reason)
        return reason

    def is_unable(self, peer: str) -> bool:
        """Return whether ``peer`` is known not to support progress markers."""
        return peer in self._unable

    def close(self) -> None:
        """Close the connections; their topics close the links."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


class ProgressLink(Part):
    """One topic's link to one peer.

    Deltas are merged while they wait, so at most one message is in flight, and memory is bounded by the state itself.
    After any failure the full state is sent, without assumptions about its earlier parts.
    """

    def __init__(
        self,
        links: ProgressLinks,
        peer: str,
        topic: str,
        full_states: Callable[[], Awaitable[list[SubscriptionProgress]]],
        asked: Callable[[], None],
        lives: Callable[[], Mapping[str, str]],
    ) -> None:
        """Open the link in the background, and keep it open.

        ``asked`` is called when the peer's capabilities are known. ``lives`` returns, for each marker, the written form
        of the life of each cluster's positions.
        """
        self._lives = lives
        self.confirmations = Confirmations()
        self.known_since: float | None = None
        """Time at which the peer first confirmed a full state; None: never, so its state is unknown."""
        self.steady_since = links.clock.now()
        """Time at which the peer last caught up after a loss or delay, or was found not to support progress."""
        self.down_since: float | None = links.clock.now()
        """Time at which the link was lost, or created if it was never up; None: the link is up."""
        self.failure = ""
        """The last error of a link that is down, if known."""
        self.unavailable = ""
        """Why the peer does not support exact progress, and the fallback; empty if it does or is unknown."""
        self.peer_life: Life | None = None
        """The life that the peer named when the link was opened; None if the link is down or the peer named none."""
        self.last_peer_life: Life | None = None
        """The life that the peer named when the link was last opened; None if it named none, or if it never was."""
        self._links = links
        self._peer = peer
        self._topic = topic
        self._full_states = full_states
        self._asked = asked
        self._news: dict[str, SubscriptionProgress] = {}
        self._oldest_at: float | None = None
        """Time of the oldest local acknowledgement in ``_news``."""
        self._wake = asyncio.Event()
        self._heard = asyncio.Event()
        self._logged_failure = ""
        """The last logged error since the link was up."""
        self._task = start_task(asyncio.get_running_loop(), self._run(), f"progress link of {topic} to {peer}")

    def add(self, news: SubscriptionProgress, oldest_at: float | None) -> None:
        """Send durable ``news``; ``oldest_at`` is the time of the oldest local acknowledgement in it."""
        waiting = self._news.get(news.name)
        if waiting is None or news.epoch > waiting.epoch:
            self._news[news.name] = news.copy()
        else:
            waiting.merge(news)
        if oldest_at is not None:
            self._oldest_at = oldest_at if self._oldest_at is None else min(self._oldest_at, oldest_at)
        self._wake.set()

    @property
    def is_known(self) -> bool:
        """Return whether ``confirmations`` is complete: the peer supports progress, and confirmed a full state once."""
        return self.known_since is not None and not self.unavailable

    def heard(self) -> None:
        """Retry at once, because the peer sent progress of this topic and may now accept it."""
        self._heard.set()

    def close(self, reason: str) -> None:
        """Stop the link; ``reason`` is logged."""
        if not self._task.done():
            log.info("progress_link_closed", topic=self._topic, peer=self._peer, reason=reason)
        self._task.cancel()

    async def _run(self) -> None:
        delay_s = RETRY_DELAY_MIN_S
        while True:
            try:
                connection = await self._links.connection(self._peer)
                producer = await self._open(connection)
                if producer is None:
                    await self._peer_heard()
                    continue
                delay_s = RETRY_DELAY_MIN_S
                ended = start_task(asyncio.get_running_loop(), producer.wait_ended(), "end of a progress producer")
                ended.add_done_callback(lambda _: self._wake.set())
                try:
                    await self._serve(producer)
                finally:
                    ended.cancel()
                    producer.drop()  # otherwise the peer's topic would count as in use
            except (OSError, MagnetarError, TimeoutError) as error:
                self._lost(str(error) or repr(error))
            except Exception as error:  # noqa: BLE001 - logged by _lost
                # the root of the link's task: reopen the link after any error
                self._lost(repr(error), error)
            if self.down_since is None:
                self.down_since = self._links.clock.now()
            await asyncio.sleep(delay_s * self._links.jitter.uniform(0.5, 1.0))
            delay_s = min(delay_s * 2, RETRY_DELAY_MAX_S)

    def _lost(self, failure: str, bug: Exception | None = None) -> None:
        """Record why the link is down. Each new reason is logged once, not for each retry."""
        self.failure, self.peer_life = failure, None
        if failure != self._logged_failure:
            self._logged_failure = failure
            log.warning("progress_link_lost", topic=self._topic, peer=self._peer, error=failure, exc_info=bug)

    def _up(self) -> None:
        """Record that the peer confirmed a full state."""
        if self.down_since is not None:
            self.steady_since = self._links.clock.now()
            log.info("progress_link_up", topic=self._topic, peer=self._peer)
        self.down_since, self.failure, self._logged_failure = None, "", ""

    async def _open(self, connection: PulsarConnection) -> Producer | None:
        """Create the topic's progress producer at the peer; return None and set ``unavailable`` if it is refused."""
        self._heard.clear()
        reason = self._links.unavailable(self._peer, connection)
        self._asked()
        if reason:
            self._note_unavailable(reason)
            return None
        try:
            name, life = progress_producer(self._links.cluster), self._links.options.life
            metadata = {LIFE_METADATA: str(life)} if life is not None else None
            producer = await connection.create_producer(self._topic, name, metadata)
        except RequestError as error:
            if error.code is not ServerError.NotAllowedError:
                self._note_unavailable("")
                raise
            log.info("progress_producer_refused", topic=self._topic, peer=self._peer, reason=str(error))
            self._note_unavailable(str(error))
            return None
        self._note_unavailable("")
        self.peer_life = self.last_peer_life = _life_of(connection)
        self._asked()
        return producer

    def _note_unavailable(self, reason: str) -> None:
        if bool(reason) != bool(self.unavailable):
            self.steady_since = self._links.clock.now()
        self.unavailable = reason

    async def _peer_heard(self) -> None:
        """Wait until the peer may support progress: it sends progress itself, or some time has passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(UNABLE_PEER_DELAY_S):
                await self._heard.wait()

    async def _serve(self, producer: Producer) -> None:
        """Send the full state, then deltas, and the full state again periodically."""
        clock, options = self._links.clock, self._links.options
        while True:
            await self._send(producer, await self._take_full(), None, full=True)
            self._up()
            self.known_since = self.known_since or self.steady_since
            full_due_at = clock.monotonic() + options.full_state_interval_s
            while (left_s := full_due_at - clock.monotonic()) > 0:
                try:
                    async with asyncio.timeout(left_s):
                        await self._wake.wait()
                except TimeoutError:
                    break
                if producer.failure is not None:
                    raise producer.failure
                started = clock.monotonic()
                oldest_at, self._oldest_at = self._oldest_at, None
                await self._send(producer, self._take_news(), oldest_at, full=False)
                await asyncio.sleep(max(0.0, options.interval_s - (clock.monotonic() - started)))

    async def _take_full(self) -> list[SubscriptionProgress]:
        self._take_news()
        self._oldest_at = None
        return await self._full_states()

    def _take_news(self) -> list[SubscriptionProgress]:
        news, self._news = list(self._news.values()), {}
        self.confirmations.sent()
        self._wake.clear()
        return news

    async def _send(
        self, producer: Producer, states: list[SubscriptionProgress], oldest_at: float | None, *, full: bool
    ) -> None:
        """Send immutable states in parts, so that other work runs in between on both sides."""
        now_ms = int(self._links.clock.now() * 1000)
        for payload in encode_markers(
            self._links.cluster,
            states,
            full=full,
            oldest_acknowledged_at_ms=None if oldest_at is None else int(oldest_at * 1000),
            lives=self._lives(),
        ):
            marker = markers.build_marker(markers.PROGRESS, payload, publish_time_ms=now_ms)
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await producer.send(marker, marker=True)
        oldest, now = self.confirmations.confirmed(), self._links.clock.now()
        if oldest is not None and now - oldest > self._links.options.at_risk_after_s:
            self.steady_since = now


def _life_of(connection: PulsarConnection) -> Life | None:
    try:
        return Life.parse(connection.peer_life)
    except ValueError:  # the peer names none
        return None
