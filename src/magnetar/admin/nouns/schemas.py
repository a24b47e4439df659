"""The noun of the client for schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from magnetar.admin.nouns.noun import Json, Noun

if TYPE_CHECKING:
    from magnetar.base.names import TopicName


class Schemas(Noun):
    """Schemas of topics. A schema is sent as ``{"type": ..., "schema": ..., "properties": {...}}``."""

    def latest(self, topic: TopicName) -> Json:
        """Return the latest version."""
        return dict(self._http.get(f"{_path(topic)}/schema"))

    def version(self, topic: TopicName, version: int) -> Json:
        """Return one version."""
        return dict(self._http.get(f"{_path(topic)}/schema/{version}"))

    def all(self, topic: TopicName) -> list[Json]:
        """Return all versions, oldest first."""
        return list(self._http.get(f"{_path(topic)}/schemas")["getSchemaResponses"])

    def upload(self, topic: TopicName, schema: Json) -> None:
        """Register a schema; refused with 409 if it clashes."""
        self._http.post(f"{_path(topic)}/schema", schema)

    def delete(self, topic: TopicName, *, force: bool = False) -> None:
        """Delete all versions; ``force``: the next version is 0 again."""
        self._http.delete(f"{_path(topic)}/schema", force=force)

    def compatibility(self, topic: TopicName, schema: Json) -> Json:
        """Return whether a schema could be registered, and the strategy that decides it."""
        return dict(self._http.send("POST", f"{_path(topic)}/compatibility", json=schema).json())

    def version_of(self, topic: TopicName, schema: Json) -> int:
        """Return the version with this definition, -1 if there is none."""
        return int(self._http.send("POST", f"{_path(topic)}/version", json=schema).json()["version"])


def _path(topic: TopicName) -> str:
    return f"/admin/v2/schemas/{topic.namespace_name}/{quote(topic.local_name, safe='')}"
