"""Questions of clients, answered by the cluster that serves the topic; equal questions share an answer."""

from __future__ import annotations

import asyncio
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import google_crc32c

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.tasks import start_task
from magnetar.lookup.answers import Answers
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from magnetar.lookup.clusters import Caller, Clusters
    from magnetar.lookup.knowledge import Knowledge
    from magnetar.lookup.options import LookupOptions

TOPICS_PARSED_MAX = 10_000
"""Number of names of topics that are kept parsed."""

Outcome = Any
"""The body of the answer, whose request id is to be replaced, or a RequestError."""


class Owner(NamedTuple):
    """The addresses of the broker that owns a topic."""

    url: str
    url_tls: str | None


class Questions:
    """Asks clusters. Used on the event loop's thread."""

    def __init__(self, knowledge: Knowledge, clusters: Clusters, options: LookupOptions) -> None:
        """Ask ``clusters`` as ``knowledge`` says."""
        self._knowledge = knowledge
        self._clusters = clusters
        self._options = options
        self._answers: Answers[Hashable, Outcome] = Answers(options.answers_max, options.answer_validity_s)
        self._asking: dict[Hashable, asyncio.Task[Outcome | RequestError]] = {}
        """Questions without an answer yet."""
        self._loop = asyncio.get_running_loop()
        self._topic = lru_cache(TOPICS_PARSED_MAX)(TopicName.parse)

    @property
    def waiting(self) -> int:
        """Number of different questions that wait for an answer of a cluster."""
        return len(self._asking)

    def known_owner(self, asked: pb.CommandLookupTopic, caller: Caller) -> Owner | None:
        """Return the owner of a topic if the answer is known; None if a cluster must be asked. Raises RequestError.

        An answer that is aging is asked again meanwhile. So clients never wait for a topic that many of them look up.
        """
        cluster = self._cluster_of(asked.topic)
        key, now = ("owner", cluster, asked.topic, asked.advertised_listener_name, caller), self._loop.time()
        found: Owner | None = self._answers.get(key, now)
        is_due = found is not None and key not in self._asking and self._answers.is_aging(key, now)
        if is_due and len(self._asking) < self._options.questions_max:
            self._begin(key, partial(self._ask_owner, cluster, asked, caller))
        return found

    async def owner(self, asked: pb.CommandLookupTopic, caller: Caller) -> Owner:
        """Return the owner of a topic; raises RequestError."""
        cluster = self._cluster_of(asked.topic)
        key = ("owner", cluster, asked.topic, asked.advertised_listener_name, caller)
        owner: Owner = await self._shared(key, partial(self._ask_owner, cluster, asked, caller))
        return owner

    async def _ask_owner(self, cluster: str, asked: pb.CommandLookupTopic, caller: Caller) -> Owner:
        found = await self._clusters.owner(cluster, caller, asked)
        return Owner(found.brokerServiceUrl, found.brokerServiceUrlTls or None)

    async def partitions(self, asked: pb.CommandPartitionedTopicMetadata, caller: Caller) -> int:
        """Return the number of partitions of a topic, which the cluster may create; raises RequestError."""
        cluster = self._cluster_of(asked.topic)
        key = ("partitions", cluster, asked.topic, asked.metadata_auto_creation_enabled, caller)

        async def ask() -> int:
            answer = await self._clusters.ask(cluster, caller, asked)
            return int(answer.partitionMetadataResponse.partitions)

        count: int = await self._shared(key, ask)
        return count

    async def schema(self, asked: pb.CommandGetSchema, caller: Caller) -> pb.CommandGetSchemaResponse:
        """Return a schema of a topic; raises RequestError."""
        cluster = self._cluster_of(asked.topic)
        return (await self._clusters.ask(cluster, caller, asked)).getSchemaResponse

    async def topics(
        self, asked: pb.CommandGetTopicsOfNamespace, caller: Caller
    ) -> pb.CommandGetTopicsOfNamespaceResponse:
        """Return the topics of a namespace that each cluster serves; raises RequestError if one does not answer."""
        namespace = NamespaceName.parse(asked.namespace)
        clusters = self._knowledge.clusters_of(namespace)
        if len(clusters) == 1:
            (cluster,) = clusters
            return (await self._clusters.ask(cluster, caller, asked)).getTopicsOfNamespaceResponse
        each = pb.CommandGetTopicsOfNamespace()
        each.CopyFrom(asked)
        each.ClearField("topics_hash")
        found = await asyncio.gather(*(self._topics_in(cluster, each, caller) for cluster in clusters))
        names = sorted(name for names, _ in found for name in names)
        topics_hash = google_crc32c.value(",".join(names).encode()).to_bytes(4, "little").hex()
        is_changed = topics_hash != asked.topics_hash
        return pb.CommandGetTopicsOfNamespaceResponse(
            request_id=0,
            topics=names if is_changed else (),
            topics_hash=topics_hash,
            filtered=all(is_filtered for _, is_filtered in found),
            changed=is_changed,
        )

    async def _topics_in(
        self, cluster: str, asked: pb.CommandGetTopicsOfNamespace, caller: Caller
    ) -> tuple[list[str], bool]:
        answer = (await self._clusters.ask(cluster, caller, asked)).getTopicsOfNamespaceResponse
        return [name for name in answer.topics if self._is_served_by(cluster, name)], answer.filtered

    def _is_served_by(self, cluster: str, name: str) -> bool:
        try:
            return self._knowledge.cluster_of(TopicName.parse(name)) == cluster
        except RequestError:  # no route, and no default cluster
            return False

    def _cluster_of(self, topic: str) -> str:
        return self._knowledge.cluster_of(self._topic(topic))

    async def _shared(self, key: Hashable, ask: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Return the answer to a question, which is asked once for all that wait for it; refusals are not kept."""
        known = self._answers.get(key, self._loop.time())
        if known is not None:
            return known
        asking = self._asking.get(key)
        if asking is None:
            if len(self._asking) >= self._options.questions_max:
                message = f"{self._options.questions_max} questions wait for an answer (--questions-max)"
                raise RequestError(ServerError.TooManyRequests, message)
            asking = self._begin(key, ask)
        outcome = await asyncio.shield(asking)
        if isinstance(outcome, RequestError):
            raise RequestError(outcome.code, str(outcome))
        return outcome

    def _begin(self, key: Hashable, ask: Callable[[], Awaitable[Outcome]]) -> asyncio.Task[Outcome | RequestError]:
        asking = self._asking[key] = start_task(self._loop, self._ask(key, ask), f"question {key}")
        return asking

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Ask; return the answer, or the refusal, which is raised to its callers only."""
        try:
            answer = await ask()
        except RequestError as error:
            return error
        finally:
            del self._asking[key]
        self._answers.put(key, answer, self._loop.time())
        return answer
