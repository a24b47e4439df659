"""The noun of the client for migration fences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.nouns.noun import Json, Noun
from magnetar.admin.paths import topic_path

if TYPE_CHECKING:
    from magnetar.base.names import TopicName


class Fences(Noun):
    """Fences, which keep the clients of a topic or a partition away while a migration moves them.

    Apache Pulsar refuses these requests with 404 or 405.
    """

    def get(self, topic: TopicName, *, digests: bool = False) -> Json:
        """Return the FencedTopic, also of a topic without a fence; ``digests``: with those of subscriptions."""
        return dict(self._http.get(_path(topic), digests=digests))

    def set(
        self,
        topic: TopicName,
        migration: str,
        epoch: int,
        phase: str,
        *,
        lease_s: float | None = None,
        digests: bool = False,
    ) -> Json:
        """Set the fence, or its next phase, and return the FencedTopic; refused with 409 if that is not possible."""
        new: Json = {"migration": migration, "epoch": epoch, "phase": phase}
        if lease_s is not None:
            new["leaseSeconds"] = lease_s
        query = "?digests=true" if digests else ""
        return dict(self._http.send("PUT", f"{_path(topic)}{query}", json=new).json())

    def remove(self, topic: TopicName, migration: str, epoch: int, *, is_decision: bool = False) -> None:
        """Remove the fence, if there is one; a final one is refused with 409 without ``is_decision``."""
        self._http.delete(_path(topic), migration=migration, epoch=epoch, final=is_decision)


def _path(topic: TopicName) -> str:
    return f"{topic_path(topic)}/fence"
