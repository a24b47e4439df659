"""Commands about the links of a cluster, additions of Magnetar (protocol: Resting links)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.wire.commands.encoding import encode
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable


def watch_links(*, request_id: int, target: str) -> bytes:
    """Build WATCH_LINKS: request reports of the namespaces that are replicated to ``target``."""
    return encode(pb.CommandWatchLinks(request_id=request_id, target=target))


def links_changed(
    *,
    added: Iterable[str] = (),
    removed: Iterable[str] = (),
    topics_changed: Iterable[str] = (),
    has_more: bool = False,
) -> bytes:
    """Build LINKS_CHANGED: report changes of replicated namespaces; ``has_more`` if another report follows at once."""
    body = pb.CommandLinksChanged(added=added, removed=removed, topics_changed=topics_changed, has_more=has_more)
    return encode(body)


def links_due(*, topics: Iterable[str] = (), urgent: int = 0, superseded: bool = False) -> bytes:
    """Build LINKS_DUE: links that need a holder, of which the first ``urgent`` have entries to carry.

    ``superseded`` if another client carries the links from now on.
    """
    return encode(pb.CommandLinksDue(topics=topics, urgent=urgent, superseded=superseded))


def watch_losses(*, request_id: int) -> bytes:
    """Build WATCH_LOSSES: request reports of the topics that the cluster loses."""
    return encode(pb.CommandWatchLosses(request_id=request_id))


def topics_lost(*, state: str, topics: Iterable[str] = ()) -> bytes:
    """Build TOPICS_LOST: report lost topics, and the state of the cluster after that."""
    return encode(pb.CommandTopicsLost(state=state, topics=topics))
