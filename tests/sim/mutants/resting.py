"""Bugs in links that rest."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.replication.link_carriers import LinkCarrier
from magnetar.broker.replication.outbound.rest import LinkRest
from magnetar.geo.losses import Losses
from magnetar.geo.resting_links import RestingLinks
from magnetar.pipeline.reading.source_cluster import SourceCluster

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from tests.sim.mutants.base import Mutant


def nothing_done(_: Any) -> Any:
    return lambda *_arguments, **_named: None


def only_others_passed(_: Any) -> Any:
    return LinkRest._pass_others


def only_forgotten(_: Any) -> Any:
    return SourceCluster._forget


def never_work(_: Any) -> Any:
    return property(lambda _self: False)


def only_urgent_reported(original: Any) -> Any:
    def mutant(self: LinkCarrier, topic: TopicName, *, is_urgent: bool) -> None:
        if is_urgent:
            original(self, topic, is_urgent=True)

    return mutant


MUTANTS: dict[str, Mutant] = {
    "a resting link not woken by an entry": (LinkRest, "dispatch", only_others_passed),
    "a link that has work to do rests": (LinkRest, "_has_work", never_work),
    "a target that may have lost anything taken for complete": (RestingLinks, "_lose_target", nothing_done),
    "a deleted topic not reported to the carriers of links": (Losses, "note", nothing_done),
    "a link forgotten that was due again when it ended": (SourceCluster, "_end", only_forgotten),
    "links without a backlog not reported to a new carrier": (LinkCarrier, "due", only_urgent_reported),
}
