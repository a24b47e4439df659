"""The target keeps the messages that the source published, and carries them to clusters that join later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.names import TopicName
from magnetar.migration.running.links import place_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.migration.running.pair import Pair


def handed_over(custody: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    """Return the policy ``custody`` after the move from ``source`` to ``target``, which keeps what the source kept."""
    kept = {origin: target if keeper == source else keeper for origin, keeper in custody.items()}
    return {origin: keeper for origin, keeper in (kept | {source: target}).items() if origin != keeper}


def take_custody(pair: Pair, place: str) -> None:
    """Let the target keep the messages of a place, in the policies of its namespace in the target."""
    of = place_of(place)
    namespace = of.namespace_name if isinstance(of, TopicName) else of
    policies = pair.target.client.policies
    with pair.target.answers():
        before = policies.custody(namespace)
        after = handed_over(before, pair.source_name, pair.target_name)
        if after != before:
            policies.set_custody(namespace, after)
