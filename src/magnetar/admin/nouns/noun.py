"""The base of the nouns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magnetar.admin.connection import Connection

Json = dict[str, Any]


class Noun:
    """One noun of the admin API."""

    def __init__(self, connection: Connection) -> None:
        """Send requests through ``connection``."""
        self._http = connection
