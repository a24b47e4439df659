"""The topics of the replicated namespaces, polled over the connection to a cluster's URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.base.tasks import start_task
from magnetar.pipeline import limits
from magnetar.wire import commands

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from magnetar.client.client import PulsarClient
    from magnetar.client.connection import PulsarConnection


class TopicWatch:
    """Polls one cluster for the persistent topics of some namespaces."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        client: PulsarClient,
        on_topics: Callable[[str, frozenset[str]], None],
    ) -> None:
        """Create a watch that calls ``on_topics`` with a namespace and all its topics after each change."""
        self._loop = loop
        self._client = client
        self._on_topics = on_topics
        self._hashes: dict[str, str] = {}
        self._questions: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start polling."""
        self._loop.call_later(limits.TOPICS_POLL_SECONDS, self.start)
        self.poll()

    def close(self) -> None:
        """Stop polling."""
        for question in self._questions:
            question.cancel()

    def serve(self, namespaces: Iterable[str]) -> None:
        """Replace the watched namespaces."""
        self._hashes = {namespace: self._hashes.get(namespace, "") for namespace in namespaces}
        self.poll()

    def poll(self) -> None:
        """Poll once."""
        service = self._client.service
        if service is not None:
            for namespace in self._hashes:
                question = start_task(self._loop, self._ask(service, namespace), f"topics of {namespace}")
                self._questions.add(question)
                question.add_done_callback(self._questions.discard)

    async def _ask(self, service: PulsarConnection, namespace: str) -> None:
        """Poll one namespace, independently of the others."""
        topics_hash = self._hashes.get(namespace)
        try:
            reply = await service.request(
                lambda request_id: commands.get_topics_of_namespace(
                    request_id=request_id, namespace=namespace, topics_hash=topics_hash
                )
            )
        except (MagnetarError, OSError):
            return  # the next poll follows soon
        answer = reply.getTopicsOfNamespaceResponse
        if namespace in self._hashes and answer.changed and answer.topics_hash != self._hashes[namespace]:
            self._hashes[namespace] = answer.topics_hash
            self._on_topics(namespace, frozenset(answer.topics))


def namespace_of(topic: str) -> str:
    """Return ``tenant/namespace`` of a full topic name. It slices the text, because it runs for every topic."""
    return topic.partition("://")[2].rpartition("/")[0]
