"""Interface between the handlers and the broker for schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.metadata.schemas import StoredSchema
    from magnetar.schema.info import SchemaInfo
    from magnetar.schema.strategy import SchemaCompatibilityStrategy


class SchemaOperations(Protocol):
    """Operations on the schemas of topics, which need not exist. Methods raise SchemaError for refused schemas."""

    async def versions(self, topic: TopicName) -> list[StoredSchema]:
        """Return all versions, oldest first."""
        ...

    async def register(self, topic: TopicName, schema: SchemaInfo) -> int:
        """Return the version of a schema; store it if it is new."""
        ...

    async def check(self, topic: TopicName, schema: SchemaInfo, strategy: SchemaCompatibilityStrategy) -> None:
        """Return if a schema could be registered."""
        ...

    async def delete(self, topic: TopicName, *, force: bool) -> int | None:
        """Delete all versions; return that of the deletion, None with ``force``, after which 0 is the next one."""
        ...
