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
        self.subscription_properties: dict[str, str] = {}
        self.fallback: Fallback | None = None
        self.is_recorded = True
        """Whether the value is durable. Until then the cursor's ledger takes nothing."""

    @classmethod
    def of(cls, home: CursorHome, value: Mapping[str, Any]) -> CursorInfo:
        """Read a stored value; raises KeyError, ValueError and TypeError."""
        info = cls(home, Position.parse(value["markDeletePosition"]))
        info.ledger_id = value["cursorsLedgerId"]
        info.subscription_properties = value["cursorProperties"]
        info.fallback = Fallback.from_json(value["fallback"]) if "fallback" in value else None
        return info

    def begin(self, on_durable: OnDurable) -> None:
        """Create the cursor's ledger, and write the value; after an error no ledger is left behind.

        Raises StorageError where that is known at once.
        """
        store, path = self.home.store, self.home.path
        assert path is not None
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

        self.home.metadata.commit([Put(path, self._content())], recorded)
        if refusal is not None:
            raise refusal

    def save(self, on_durable: OnDurable) -> None:
        """Write the value, unless the cursor was deleted; ``on_durable`` is called when that is durable."""
        metadata, path = self.home.metadata, self.home.path
        if path is not None and self._is_stored(path):
            metadata.commit([Put(path, self._content())], on_durable)
        else:
            metadata.barrier(on_durable)  # the deletion may be on its way

    def _is_stored(self, path: str) -> bool:
        """Whether the cursor is still there: a write may be reported after it was deleted, or even made anew."""
        stored = self.home.metadata.get(path)
        value = json.loads(stored.value) if stored is not None else {}
        return value.get("cursorsLedgerId") == self.ledger_id and not value.get("deleted")

    def _content(self) -> bytes:
        value: dict[str, Any] = {
            "cursorsLedgerId": self.ledger_id,
            "markDeletePosition": str(self.began),
            "cursorProperties": self.subscription_properties,
        }
        if self.fallback is not None:
            value["fallback"] = self.fallback.to_json()
        return json.dumps(value).encode()
