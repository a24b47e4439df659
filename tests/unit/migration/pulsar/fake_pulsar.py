"""An Apache Pulsar with one topic, and a carrier of acknowledgements that keeps them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.wire.entries.origin import Origin, stamp
from tests.unit.migration.pulsar.two_logs import Log, metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.migration.pulsar.topic_log import TopicLog

EU = TopicName.parse("persistent://shop/orders/eu")
CLIENT = {"address": "/10.0.0.9:4242", "clientVersion": "Pulsar-CPP-v3.7.0"}
PIPELINE = {"address": "/10.0.0.1:1", "clientVersion": "Magnetar 0.1.0"}


@dataclass
class Pulsar(httpx.BaseTransport):
    """Apache Pulsar with one topic."""

    publishers: list[dict[str, Any]] = field(default_factory=list)
    consumers: list[dict[str, Any]] = field(default_factory=list)
    backlog: int = 0
    """Of the link."""
    left: int = 3
    """Unacknowledged entries of the subscription ``billing``."""
    marks: list[str] = field(default_factory=lambda: ["5:6"])
    """Mark-delete positions of ``billing``, one for each look; the last one stays."""
    end: str = "5:9"
    """The last entry of the log."""
    carried: str = "5:9"
    """The mark-delete position of the link."""
    published_ms: int = 0
    """When the oldest entry was published that the link has not carried."""
    kind: str = "Shared"
    held: int = 0
    """Messages that consumers of ``billing`` hold."""
    dispatched: int = 9
    """Messages that were dispatched to them."""
    rate: dict[str, Any] | None = None
    """Its dispatch rate."""
    rate_is_known_after: int = 0
    """Number of requests for it until the broker has read it."""
    has_policies: bool = True
    """Whether topics can have policies."""
    partitions: int = 0
    unloads: int = 0
    sequence_ids: dict[str, int] | None = None
    """Those of the last snapshot of deduplication."""
    topic_epoch: int | None = None
    stays: bool = False
    """Whether clients come back after an unload."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        end = request.url.path.rpartition("/")[2]
        if end == "dispatchRate":
            return self._rate(request)
        if end == "partitions":
            return _answer({"partitions": self.partitions})
        if end == "unload":
            self.unloads += 1
            if not self.stays:
                self.publishers, self.consumers = [], []
            return httpx.Response(204)
        if end == "internalStats":
            mark = self.marks.pop(0) if len(self.marks) > 1 else self.marks[0]
            cursors = {"billing": mark, "magnetar.repl.A": self.carried}
            found: dict[str, dict[str, Any]] = {
                n: {"markDeletePosition": each, "individuallyDeletedMessages": "[]"} for n, each in cursors.items()
            }
            if self.sequence_ids is not None:
                found["pulsar.dedup"] = {"markDeletePosition": self.end, "properties": self.sequence_ids}
            return _answer({"lastConfirmedEntry": self.end, "cursors": found})
        link = {"msgBacklog": self.backlog, "isDurable": True, "consumers": [PIPELINE]}
        link |= {"earliestMsgPublishTimeInBacklog": self.published_ms}
        billing = {"msgBacklog": self.left, "isDurable": True, "isReplicated": True, "consumers": self.consumers}
        billing |= {"type": self.kind, "unackedMessages": self.held, "msgOutCounter": self.dispatched}
        reader = {"msgBacklog": 9, "isDurable": False, "consumers": []}
        subscriptions = {"magnetar.repl.A": link, "billing": billing, "reader-1": reader}
        of_link = {"producerName": "pulsar.repl.A-->legacy", **PIPELINE}
        publishers = [of_link, *self.publishers]
        stats = {"publishers": publishers, "subscriptions": subscriptions, "replication": {}}
        return _answer(stats if self.topic_epoch is None else {**stats, "topicEpoch": self.topic_epoch})

    def _rate(self, request: httpx.Request) -> httpx.Response:
        assert "/billing/" in request.url.path
        if "-partition-" in request.url.path:
            return httpx.Response(412, json={"reason": "Not allowed to set/get topic policy for a partition"})
        if not self.has_policies:
            return httpx.Response(405, json={"reason": "Topic level policies is disabled"})
        if request.method == "GET" and self.rate and self.rate_is_known_after:
            self.rate_is_known_after -= 1
            return httpx.Response(204)
        if request.method == "GET":
            return httpx.Response(200, content=json.dumps(self.rate)) if self.rate else httpx.Response(204)
        self.rate = None if request.method == "DELETE" else json.loads(request.content)
        return httpx.Response(204)


def _answer(found: dict[str, Any]) -> httpx.Response:
    return httpx.Response(200, content=json.dumps(found))


@dataclass
class Carrier:
    """Keeps what is sent."""

    refusal: str = ""
    sent: list[SubscriptionProgress] = field(default_factory=list)

    def send(self, topic: str, states: Sequence[SubscriptionProgress]) -> str:
        assert topic == str(EU)
        self.sent += states
        return self.refusal


@dataclass
class LogReader:
    """Reads a log of four entries; the cluster A has published the second and the last one."""

    refusal: str = ""
    only_to: str = ""
    """The cluster for which the second and the last entry are, if A has not published them."""
    logs: list[TopicLog] = field(default_factory=list)

    def read_on(self, topic: str, log: TopicLog) -> str:
        assert topic == str(EU)
        if not any(log is each for each in self.logs):
            self.logs.append(log)
        held = Log(5)
        for number in range(2):
            held.append(metadata())
            stamped = stamp(metadata(), Origin("A", Position(100, number)))
            held.append(metadata(only_to=self.only_to) if self.only_to else stamped)
        if not self.refusal:
            held.read_on(log)
        return self.refusal
