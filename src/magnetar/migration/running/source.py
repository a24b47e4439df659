"""What a run asks of the cluster that clients leave, which differs for Magnetar and Apache Pulsar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from magnetar.migration.known import sum_if_known
from magnetar.migration.running import links, subscriptions
from magnetar.migration.running.agreement import has_agreed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from magnetar.migration.running.links import LinkState
    from magnetar.migration.running.pair import Pair


class Source(Protocol):
    """The source. Methods raise UnansweredError, and each can be repeated."""

    def link(self, place: str, before: Sequence[str]) -> None:
        """Replicate a place to the target, besides its clusters ``before``."""
        ...

    def unlink(self, place: str, before: Sequence[str]) -> None:
        """Undo ``link``. What the links have carried stays in the target."""
        ...

    def link_state(self, topic: str) -> LinkState:
        """Return how far the link of a topic has come."""
        ...

    def settings_of(self, topic: str) -> dict[str, bool]:
        """Return the durable subscriptions of a topic, and whether each is replicated."""
        ...

    def replicate(self, topic: str, wanted: Iterable[str]) -> None:
        """Let the target follow subscriptions."""
        ...

    def restore(self, topic: str, before: Mapping[str, bool]) -> None:
        """Give subscriptions their former settings."""
        ...

    def missing_progress(self, topic: str, wanted: Iterable[str]) -> tuple[str, int | None]:
        """Return why the target could not continue with subscriptions of a topic; empty: it could.

        The other result is the number of acknowledgements that it has not confirmed; None: unknown.
        """
        ...

    def left_behind(self, topic: str, stats: Mapping[str, Any]) -> str:
        """Return what the clean-up of a topic with these TopicStats must wait for; empty: nothing."""
        ...


class MagnetarSource:
    """A source with exact progress. Used by several threads."""

    def __init__(self, pair: Pair) -> None:
        """Use the source of ``pair``."""
        self._pair = pair
        self._first_unconfirmed: dict[tuple[str, str], int] = {}
        """By topic and subscription: the unconfirmed acknowledgements at the first look."""

    def link(self, place: str, before: Sequence[str]) -> None:
        """See ``Source``."""
        links.link(self._pair, place, before)

    def unlink(self, place: str, before: Sequence[str]) -> None:
        """See ``Source``."""
        links.unlink(self._pair, place, before)

    def link_state(self, topic: str) -> LinkState:
        """See ``Source``."""
        return links.link_state(self._pair, topic)

    def settings_of(self, topic: str) -> dict[str, bool]:
        """See ``Source``."""
        return subscriptions.settings_of(self._pair, topic)

    def replicate(self, topic: str, wanted: Iterable[str]) -> None:
        """See ``Source``."""
        subscriptions.replicate(self._pair, topic, wanted)

    def restore(self, topic: str, before: Mapping[str, bool]) -> None:
        """See ``Source``."""
        subscriptions.restore(self._pair.source, topic, before)

    def missing_progress(self, topic: str, wanted: Iterable[str]) -> tuple[str, int | None]:
        """See ``Source``."""
        names = list(wanted)
        reason, left = "", list[int | None]()
        for name, state in subscriptions.progress_of(self._pair, topic, names).items():
            left.append(state.unconfirmed)
            first = self._first_unconfirmed.setdefault((topic, name), state.unconfirmed or 0)
            if state.refusal:
                reason = f"{name}: {state.refusal}"
            elif not has_agreed(state.unconfirmed, state.age_s, first):
                reason = reason or f"{name}: the target has not confirmed all acknowledgements"
        if not reason:
            lacking = subscriptions.complete_target(self._pair, topic, names)
            reason = f"{lacking}: the target does not have it yet" if lacking else ""
        return reason, sum_if_known(left)

    def left_behind(self, topic: str, stats: Mapping[str, Any]) -> str:
        """See ``Source``: entries for third clusters."""
        del topic
        return waiting_in(stats)


def waiting_in(stats: Mapping[str, Any]) -> str:
    """Return which cluster does not have all entries of a topic, by its TopicStats; empty: all have them."""
    for cluster, link in stats["replication"].items():
        if link.get("replicationBacklog") != 0:
            return f"{cluster} does not have all entries of the source"
    return ""
