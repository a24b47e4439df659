"""JSON Schema documents: the definitions of JSON schemas before they had Avro definitions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from magnetar.schema.definition import Definition

if TYPE_CHECKING:
    from magnetar.schema.strategy import SchemaCompatibilityStrategy

_TYPES: Final = frozenset({"any", "array", "boolean", "integer", "null", "number", "object", "string"})


@dataclass(frozen=True, slots=True)
class JsonDocument(Definition):
    """A document; Pulsar compares only the ids of two documents."""

    id: str | None

    @classmethod
    def parse(cls, data: bytes) -> JsonDocument | None:
        """Read a document; None for other data."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            return None
        if not isinstance(document, dict) or not isinstance(kind := document.get("type"), str) or kind not in _TYPES:
            return None
        found = document.get("id")
        return cls(found if isinstance(found, str) else None)

    def conflict(self, old: Definition, strategy: SchemaCompatibilityStrategy) -> str | None:
        """See Definition; documents and Avro definitions may follow each other."""
        del strategy
        if isinstance(old, JsonDocument) and old.id != self.id:
            return f"the id changes from {old.id} to {self.id}"
        return None
