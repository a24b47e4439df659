"""Bugs in links that rest."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.replication.link_carriers import LinkCarrier
from magnetar.broker.replication.outbound.rest import LinkRest
from magnetar.geo import resting_links
from magnetar.geo.losses import Losses
from magnetar.geo.resting_links import RestingLinks
from magnetar.pipeline.reading.openings import Openings
from magnetar.pipeline.reading.source_cluster import SourceCluster
from magnetar.sim import pipeline as sim_pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.names import TopicName
    from tests.sim.mutants.base import Mutant


def nothing_done(_: Any) -> Any:
    return lambda *_arguments, **_named: None


def only_others_passed(_: Any) -> Any:
    return LinkRest._pass_others


def only_forgotten(_: Any) -> Any:
    return lambda self, attached: self._forget(attached.source_link.attachment.topic)


def never_work(_: Any) -> Any:
    return property(lambda _self: False)


def only_urgent_reported(original: Any) -> Any:
    def mutant(self: LinkCarrier, topic: TopicName, *, is_urgent: bool) -> None:
        if is_urgent:
            original(self, topic, is_urgent=True)

    return mutant


def all_ever_carried(_: Any) -> Any:
    return lambda _self, carrier: list(carrier.buckets)


def some_buckets_left_out(original: Any) -> Any:
    def mutant(traffic: Sequence[int], parts: int) -> list[frozenset[int]]:
        divided: list[frozenset[int]] = original(traffic, parts)
        return [frozenset(sorted(buckets)[parts - 1 :: parts]) for buckets in divided]

    return mutant


MUTANTS: dict[str, Mutant] = {
    "a resting link not woken by an entry": (LinkRest, "dispatch", only_others_passed),
    "a link that has work to do rests": (LinkRest, "_has_work", never_work),
    "a target that may have lost anything taken for complete": (RestingLinks, "_lose_target", nothing_done),
    "a deleted topic not reported to the carriers of links": (Losses, "note", nothing_done),
    "a link forgotten that was due again when it ended": (SourceCluster, "_end", only_forgotten),
    "a carrier ends for buckets that others carry": (resting_links._LinksToTarget, "carried_by", all_ever_carried),
    "links that are attached keep others waiting for ever": (Openings, "remove", nothing_done),
    "buckets that no task carries": (sim_pipeline, "spread", some_buckets_left_out),
    "links without a backlog not reported to a new carrier": (LinkCarrier, "due", only_urgent_reported),
}
