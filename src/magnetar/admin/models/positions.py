"""Message ids in the bodies of requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, TypeAdapter

from magnetar.base.position import Position

_Long = Annotated[int, Field(ge=-1, lt=2**63)]


class MessageIdData(BaseModel):
    """A message id, and what a reset of a cursor or a new subscription states with it (Pulsar: ResetCursorData)."""

    ledgerId: _Long  # noqa: N815 - Pulsar's name
    entryId: _Long  # noqa: N815 - Pulsar's name
    isExcluded: bool = False  # noqa: N815 - Pulsar's name
    batchIndex: Annotated[int, Field(ge=-1, lt=2**31)] = -1  # noqa: N815 - Pulsar's name
    properties: dict[str, str] | None = None

    @property
    def position(self) -> Position:
        """The position of the entry."""
        return Position(self.ledgerId, self.entryId)


MESSAGE_ID: TypeAdapter[MessageIdData] = TypeAdapter(MessageIdData)
OPTIONAL_MESSAGE_ID: TypeAdapter[MessageIdData | None] = TypeAdapter(MessageIdData | None)
