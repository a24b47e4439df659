"""Two fake clusters, A and B, whose links carry everything at once unless a test says otherwise."""

from __future__ import annotations

import json
from typing import Any

import httpx

from magnetar.base.names import NamespaceName, TopicName
from tests.unit.admin.fake_clusters import MagnetarTransport
from tests.unit.admin.fake_service import FakeAdminService, FakeSubscription


def carried(answer: httpx.Response, target: str, backlog: int = 0) -> httpx.Response:
    """Return the state of a topic whose link has a backlog, and whose acknowledgements are confirmed."""
    found: dict[str, Any] = json.loads(answer.content)
    found["links"] = {target: {"backlog": backlog, "connected": True, "parkedReason": None}}
    for each in found["subscriptions"].values():
        each |= {"progressUnconfirmed": {target: 0}, "progressAgeSeconds": {target: 0.0}}
    return httpx.Response(answer.status_code, json=found)


class Source(MagnetarTransport):
    """Cluster A; its links to B are open when its namespaces are replicated, and have the backlogs ``left``."""

    def __init__(self, service: FakeAdminService) -> None:
        super().__init__(service)
        self.service = service
        self.left: dict[TopicName, list[int]] = {}
        """Backlogs of the links, one for each look at a topic; then 0."""
        self.unconfirmed: list[float] = []
        """Ages of unconfirmed acknowledgements, one for each look when all are replicated; then 0."""
        self.stuck, self.stuck_topic = 0, ""
        """A topic whose link has this backlog while it is fenced."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        if request.url.path.endswith("/fence") and answer.content:
            return carried(answer, "B", self.stuck if f"/{self.stuck_topic}/" in request.url.path else 0)
        if not request.url.path.endswith("/stats") or not answer.is_success:
            return answer
        stats: dict[str, Any] = json.loads(answer.content)
        waiting = next((left for topic, left in self.left.items() if f"/{topic.local_name}/" in request.url.path), [])
        link = {"replicationBacklog": waiting.pop(0) if waiting else 0, "replicationDelayInSeconds": 60}
        clusters = self.service.resources.namespaces.get(NamespaceName("shop", "orders"))
        own = self.service.resources.topic_policies.get(TopicName.parse("persistent://shop/orders/eu"))
        is_linked = (clusters is not None and "B" in clusters.replication_clusters) or own is not None
        stats["replication"] = {"B": link | {"connected": True}} if is_linked else {}
        found = stats["subscriptions"].values()
        age = (
            self.unconfirmed.pop(0)
            if found and all(each["isReplicated"] for each in found) and self.unconfirmed
            else 0.0
        )
        for each in found:
            each["progressAgeSeconds"] = {"B": age}
            each["progressUnconfirmed"] = {"B": 9 if age else 0}
        return httpx.Response(answer.status_code, json=stats)


class Target(MagnetarTransport):
    """Cluster B; the subscriptions of A arrive there."""

    def __init__(self, service: FakeAdminService, source: FakeAdminService) -> None:
        super().__init__(service)
        self.service = service
        self.source = source
        self.never = False
        """Whether no subscription arrives."""
        self.refuses: str | None = None
        """A path to which nothing can be written."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == self.refuses and request.method != "GET":
            return httpx.Response(409, json={"reason": "no"})
        for topic, held in tuple(self.service.topics.held.items()):  # other threads add some
            here = self.source.topics.held.get(topic)
            there = {} if self.never or here is None else here.subscriptions
            held.subscriptions |= {
                name: FakeSubscription(each.position) for name, each in there.items() if name not in held.subscriptions
            }
        answer = super().handle_request(request)
        return carried(answer, "A") if request.url.path.endswith("/fence") and answer.content else answer
