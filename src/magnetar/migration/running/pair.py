"""What the effects of a migration share: the clusters, and requests for many topics at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from magnetar.admin.cluster_metadata.reading import REQUESTS_AT_ONCE
from magnetar.base.errors import MigrationError
from magnetar.migration.machine.records import Begun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from magnetar.migration.scope import Scope
    from magnetar.migration.sides import Side

Item = TypeVar("Item")
Found = TypeVar("Found")

BATCH = 500
"""Topics whose changes are one record of the journal."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The clusters, their names, and what moves."""

    scope: Scope
    source: Side
    target: Side
    source_name: str
    target_name: str
    from_pulsar: bool = False
    """Whether the source is Apache Pulsar."""

    def require_same(self, begun: Begun) -> None:
        """Raise MigrationError if another migration than this one has begun."""
        if begun != Begun(str(self.scope), self.source_name, self.target_name):
            message = f"the migration of {begun.scope} from {begun.source} to {begun.target} has begun here\n"
            message += "hint: name another directory with --state"
            raise MigrationError(message)

    def with_each(self, items: Iterable[Item], ask: Callable[[Item], Found]) -> Iterator[tuple[Item, Found]]:
        """Yield each item with what ``ask`` returns, in order; some requests are in progress at the same time."""
        wanted = list(items)
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            yield from zip(wanted, pool.map(ask, wanted), strict=True)

    def for_each(self, items: Iterable[Item], act: Callable[[Item], None]) -> None:
        """Call ``act`` with each item, as ``with_each``."""
        for _ in self.with_each(items, act):
            pass
