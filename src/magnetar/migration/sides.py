"""The two clusters of a migration, and errors that name the one at fault."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import AdminError, ClusterUnreachableError, MagnetarError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.admin.client import AdminClient

SOURCE, TARGET = "source", "target"


class Side(NamedTuple):
    """One of the clusters."""

    role: str
    client: AdminClient
    options: str = ""
    """Options that select the cluster in a command, after a space."""

    @contextmanager
    def answers(self) -> Iterator[None]:
        """Raise UnansweredError if a request in the block is refused or not answered."""
        try:
            yield
        except (AdminError, ClusterUnreachableError) as error:
            raise UnansweredError(self) from error


class UnansweredError(MagnetarError):
    """One of the clusters did not answer, or refused; the cause is the error."""

    def __init__(self, side: Side) -> None:
        """Keep the cluster."""
        super().__init__(f"the {side.role} {side.client.url} did not answer")
        self.side = side


def source_of(client: AdminClient, options: str = "") -> Side:
    """Return the cluster that a migration leaves."""
    return Side(SOURCE, client, options)


def target_of(client: AdminClient, options: str = "") -> Side:
    """Return the cluster to which a migration moves."""
    return Side(TARGET, client, options)
