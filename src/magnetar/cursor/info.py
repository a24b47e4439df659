"""The value of a cursor in the metadata store: its ledger, where it began, and the subscription's properties.

While the ledger cannot be written, the value also holds a fallback (``fallback.py``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar.base.position import Position
from magnetar.cursor.fallback import Fallback
from magnetar.cursor.limits import DEFAULT_LIMITS
from magnetar.metadata.store import Put

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.base.errors import StorageError
    from magnetar.cursor.limits import CursorLimits
    from magnetar.ledger.store import LedgerStore, OnDurable
    from magnetar.metadata.store import MetadataStore


_PROPERTIES = "cursorProperties"
"""Key of the properties in the value."""


@dataclass(frozen=True, slots=True)
class CursorHome:
    """Where a cursor is kept, and within which limits; ``path`` is None for one that is not durable."""

    store: LedgerStore
    metadata: MetadataStore
    path: str | None
    limits: CursorLimits = DEFAULT_LIMITS
    failed: Callable[[StorageError], None] = lambda _: None
    """Told that the record of a new cursor could not be stored, so that there is no such cursor."""


class CursorInfo:
    """The value of one cursor, and its writes. It writes nothing if the cursor is not durable."""

    def __init__(self, home: CursorHome, began: Position) -> None:
        """Create the value of a new cursor that begins after ``began``; ``begin`` writes it."""
        self.home = home
        self.began = began
        self.ledger_id: int | None = None
        self._properties: dict[str, str] = {}
        """Properties of a subscription that is not durable. Those of others are read from the metadata store."""
        self.fallback: Fallback | None = None
        self.is_recorded = True
        """Whether the value is durable. Until then the cursor's ledger takes nothing."""

    @classmethod
    def of(cls, home: CursorHome, value: Mapping[str, Any]) -> CursorInfo:
        """Read a stored value; raises KeyError, ValueError and TypeError."""
        info = cls(home, Position.parse(value["markDeletePosition"]))
        info.ledger_id = value["cursorsLedgerId"]
        info.fallback = Fallback.from_json(value["fallback"]) if "fallback" in value else None
        return info

    @property
    def subscription_properties(self) -> dict[str, str]:
        """The properties of the subscription; empty after it was deleted."""
        found: dict[str, str] = self._properties if self.home.path is None else self._stored().get(_PROPERTIES, {})
        return found

    def begin(self, properties: dict[str, str], on_durable: OnDurable) -> None:
        """Create the cursor's ledger, and write the value; after an error no ledger is left behind.

        Raises StorageError where that is known at once.
        """
        store, path = self.home.store, self.home.path
        if path is None:
            self._properties = properties
            return
        ledger_id = self.ledger_id = store.create()
        self.is_recorded = False
        refusal: StorageError | None = None

        def recorded(error: StorageError | None) -> None:
            nonlocal refusal
            refusal, self.is_recorded = error, True
            if error is not None:
                self.ledger_id = None
                store.delete(ledger_id)
                self.home.failed(error)
            on_durable(error)

        self.home.metadata.commit([Put(path, self._content(properties))], recorded)
        if refusal is not None:
            raise refusal

    def save(self, on_durable: OnDurable) -> None:
        """Write the value, unless the cursor was deleted; ``on_durable`` is called when that is durable."""
        self._save(self.subscription_properties, on_durable)

    def set_properties(self, properties: dict[str, str], on_durable: OnDurable) -> None:
        """Replace the properties of the subscription; ``on_durable`` is called when that is durable."""
        if self.home.path is None:
            self._properties = properties
        self._save(properties, on_durable)

    def forget(self) -> None:
        """Free the properties: the cursor is closed."""
        self._properties = {}

    def _save(self, properties: dict[str, str], on_durable: OnDurable) -> None:
        metadata, path = self.home.metadata, self.home.path
        if path is not None and self._stored():
            metadata.commit([Put(path, self._content(properties))], on_durable)
        else:
            metadata.barrier(on_durable)  # the deletion may be on its way

    def _stored(self) -> dict[str, Any]:
        """Return the value; empty if the cursor was deleted.

        A write may be reported after the cursor was deleted, or even created again.
        """
        stored = None if self.home.path is None else self.home.metadata.get(self.home.path)
        value: dict[str, Any] = {} if stored is None else json.loads(stored.value)
        return value if value.get("cursorsLedgerId") == self.ledger_id and not value.get("deleted") else {}

    def _content(self, properties: dict[str, str]) -> bytes:
        value: dict[str, Any] = {
            "cursorsLedgerId": self.ledger_id,
            "markDeletePosition": str(self.began),
            _PROPERTIES: properties,
        }
        if self.fallback is not None:
            value["fallback"] = self.fallback.to_json()
        return json.dumps(value).encode()
