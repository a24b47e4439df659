"""Places of messages in the logs of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from magnetar.admin.nouns.noun import Noun
from magnetar.admin.paths import topic_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from magnetar.base.names import TopicName
    from magnetar.base.position import Position


class Messages(Noun):
    """Messages of a topic or a partition, by position. Apache Pulsar refuses these requests with 404 or 405."""

    def origin(self, topic: TopicName, position: Position) -> dict[str, Any]:
        """Return the MessageOrigin of the entry at a position of this cluster."""
        return dict(self._http.get(f"{topic_path(topic)}/{_place(position)}/origin"))

    def location(self, topic: TopicName, cluster: str, position: Position) -> dict[str, Any]:
        """Return the MessageLocation, in this cluster, of the entry that ``cluster`` published at a position."""
        return dict(self._http.get(f"{topic_path(topic)}/origin/{quote(cluster, safe='')}/{_place(position)}"))

    def producer_state(self, topic: TopicName) -> dict[str, Any]:
        """Return the ProducerState, which the next producers continue."""
        return dict(self._http.get(f"{topic_path(topic)}/producerState"))

    def add_producer_state(self, topic: TopicName, state: Mapping[str, Any]) -> None:
        """Raise the epoch and sequence ids to those of another cluster.

        Sequence ids are refused with 412 if deduplication is off; nothing is changed then.
        """
        self._http.put(f"{topic_path(topic)}/producerState", dict(state))

    def former_cluster(self, topic: TopicName) -> dict[str, Any] | None:
        """Return the FormerCluster, whose message ids are translated; None without one."""
        found = self._http.get(f"{topic_path(topic)}/formerCluster")
        return None if found is None else dict(found)

    def set_former_cluster(self, topic: TopicName, cluster: str) -> None:
        """Translate message ids of ``cluster``; refused with 412 if they cannot be told from those given here."""
        self._http.put(f"{topic_path(topic)}/formerCluster/{quote(cluster, safe='')}")

    def remove_former_cluster(self, topic: TopicName) -> None:
        """Translate no message ids any more."""
        self._http.delete(f"{topic_path(topic)}/formerCluster")


def _place(position: Position) -> str:
    return f"ledger/{position.ledger_id}/entry/{position.entry_id}"
