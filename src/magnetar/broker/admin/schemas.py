"""Operations on schemas."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from magnetar.base.errors import SchemaError
from magnetar.broker.admin.finding import refusals

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.metadata.schemas import StoredSchema
    from magnetar.schema.info import SchemaInfo
    from magnetar.schema.strategy import SchemaCompatibilityStrategy


class SchemaOperations:
    """See ``magnetar.admin.service.SchemaOperations``."""

    def __init__(self, environment: Environment) -> None:
        """Operate on the registry of the broker."""
        self._environment = environment
        self._turn = asyncio.Lock()
        """All requests together have one check at a time."""

    async def versions(self, topic: TopicName) -> list[StoredSchema]:
        """Return all versions, oldest first."""
        await self._environment.recorded()
        return self._environment.schemas.all(topic)

    async def register(self, topic: TopicName, schema: SchemaInfo) -> int:
        """Return the version of a schema; store it if it is new. Operators may do so whatever clients may."""
        policies = replace(self._environment.policies.of(topic), schema_auto_update=True)
        with refusals(topic, but=SchemaError):
            return await self._environment.schemas.register(topic, schema, policies, self._turn)

    async def check(self, topic: TopicName, schema: SchemaInfo, strategy: SchemaCompatibilityStrategy) -> None:
        """Return if a schema could be registered."""
        with refusals(topic, but=SchemaError):
            await self._environment.schemas.check_new(topic, schema, strategy, self._turn)

    async def delete(self, topic: TopicName, *, force: bool) -> int | None:
        """Delete all versions."""
        return await self._environment.schemas.delete(topic, force=force)
