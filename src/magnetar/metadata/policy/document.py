"""The base of all JSON objects in the metadata store."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Int = Annotated[int, Field(ge=-(2**31), lt=2**31)]
"""A number that is an ``int`` in Pulsar."""

Long = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""A number that is a ``long`` in Pulsar."""


class Document(BaseModel):
    """A stored JSON object; null means absent in both directions, as in Pulsar."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:  # noqa: ANN401 - anything may come from outside
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if value is not None}
        return data

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Parse a document; raises pydantic's ValidationError for a wrong type."""
        return cls.model_validate_json(text)

    def to_json(self) -> dict[str, Any]:
        """Return the object as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_bytes(self) -> bytes:
        """Return the stored form of the object."""
        return self.model_dump_json(exclude_none=True).encode()
