"""Refusal of positions of a cluster that lost its data and whose ledger ids repeat (ADR 13)."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.life import Life
from magnetar.base.names import shown
from magnetar.base.position import EARLIEST, LONG_MAX
from magnetar.geo.lives import may_be_mixed_up, may_follow, reason_against
from magnetar.wire.entries.markers import PROBE, marker_type
from magnetar.wire.links import LIFE_METADATA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from magnetar.base.position import Position
    from magnetar.broker.log.interfaces import LoggedTopic
    from magnetar.broker.replication.interfaces import TopicWithSubscriptions
    from magnetar.geo.progress.codec import ProgressReport
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.geo.snapshots.claims import UpdateClaims
    from magnetar.wire.entries.origin import Origin
    from magnetar.wire.proto.pulsar_api_pb2 import MessageMetadata

log = structlog.get_logger(__name__)

LIVES_PROPERTY = "magnetar.lives"
"""Managed-ledger property: for each other cluster, the encoded life whose positions the topic accepts."""

PARSED_MAX = 1_000
"""Parsed values of the property in memory, each some 500 bytes. Most topics of a cluster have the same value."""


LIFE_LENGTH_MAX = 100
"""Maximum length in characters of an encoded life from another cluster. Brokers write some 30."""


def check_life(topic: TopicWithSubscriptions, source: str, metadata: Mapping[str, str]) -> None:
    """Record the life of ``source`` from the ``metadata`` of a link; senders of older releases name none.

    A new life is durable when the metadata are. Raises RequestError if its positions cannot be distinguished from those
    of an earlier life.
    """
    text = metadata.get(LIFE_METADATA)
    if text is None:
        return
    life, known = _parse(text), known_lives(topic)
    before = known.get(source)
    if before is not None and before.identity == life.identity:
        return
    reason = _reason_against(topic, source, life, before)
    if reason is not None:
        raise _refusal(topic, source, reason)
    _note(topic, {**known, source: life})


def check_progress(topic: TopicWithSubscriptions, marker: ProgressReport) -> bool:
    """Record the lives that a progress marker names; senders of older releases name none.

    Returns whether one of them is new: the marker must not be applied before that is durable.

    A third cluster may know the new life of a rebuilt cluster earlier, or only the earlier one. An earlier life is not
    recorded again: entries of the new life would be stored under it, and the next link of the new life would be
    refused. Raises RequestError if positions in the marker could be mistaken for those of the known life.
    """
    return _check_named(
        topic, marker.source_cluster, marker.lives, lambda cluster: max(_positions_of(cluster, marker.states))
    )


def check_claims(topic: TopicWithSubscriptions, source: str, claims: UpdateClaims) -> bool:
    """Record the lives that the claims of an update of ``source`` name; returns and raises as ``check_progress``."""
    return _check_named(topic, source, claims.lives, claims.newest_of)


def check_probe(topic: TopicWithSubscriptions, source: str, origin: Origin, metadata: MessageMetadata) -> None:
    """Record the life of a cluster whose entries are in the custody of ``source``, if this is the probe before them.

    Otherwise entries of a new life would be stored under an earlier one, and the cluster would be refused when it
    returns. A target that lacks entries refuses the probe: they follow in an attachment that awaits the record. Raises
    as ``check_progress``.
    """
    if marker_type(metadata) == PROBE:
        life = next((each.value for each in metadata.properties if each.key == LIFE_METADATA), None)
        _check_named(topic, source, {} if life is None else {origin.cluster: life}, lambda _: origin.position)


def _check_named(
    topic: TopicWithSubscriptions, source: str, lives: Mapping[str, str], newest_of: Callable[[str], Position]
) -> bool:
    if not lives:
        return False
    known = known_lives(topic)
    learned: dict[str, Life] = {}
    for cluster, text in lives.items():
        life = _parse(text)
        is_own = cluster == topic.environment.cluster
        before = topic.environment.store.life if is_own else known.get(cluster)
        if before is not None and before.identity == life.identity:
            continue
        is_noted = not is_own and (cluster == source or may_follow(life, before))
        if is_noted and _reason_against(topic, cluster, life, before) is None:
            learned[cluster] = life
        elif before is not None and may_be_mixed_up(life, before, newest_of(cluster)):
            reason = f"{source} names positions of its life {life}, and here its life is {before}"
            raise _refusal(topic, cluster, reason)
    if learned:
        _note(topic, {**known, **learned})
    return bool(learned)


def lives_to_name(topic: TopicWithSubscriptions) -> dict[str, str]:
    """Return the lives for a progress marker: that of this cluster, and the known ones of others."""
    named = {cluster: str(life) for cluster, life in known_lives(topic).items()}
    own = topic.environment.store.life
    if own is not None:
        named[topic.environment.cluster] = str(own)
    return named


def _parse(text: str) -> Life:
    """Parse a life from another cluster, with checks that stored ones do not need."""
    if len(text) > LIFE_LENGTH_MAX or not text.isascii():
        message = f"{shown(text)} is not a life: a life has at most {LIFE_LENGTH_MAX} ASCII characters"
        raise RequestError(ServerError.MetadataError, message)
    try:
        life = Life.parse(text)
    except ValueError as error:
        raise RequestError(ServerError.MetadataError, str(error)) from error
    if not 0 <= life.first_ledger_id <= LONG_MAX:
        message = f"{text!r} is not a life: {life.first_ledger_id} is not a ledger id"
        raise RequestError(ServerError.MetadataError, message)
    return life


def was_lost(topic: LoggedTopic, position: Position) -> bool:
    """Return whether this cluster published an entry in an earlier life, and lost it with its data."""
    life = topic.environment.store.life
    return life is not None and position.ledger_id < life.first_ledger_id


def known_lives(topic: LoggedTopic) -> Mapping[str, Life]:
    """Return the life of each other cluster whose positions the topic accepts, as far as it was named."""
    return _parsed(topic.ledger.properties.get(LIVES_PROPERTY, "{}"))


@lru_cache(maxsize=PARSED_MAX)
def _parsed(stored: str) -> Mapping[str, Life]:
    return {cluster: Life.parse(text) for cluster, text in json.loads(stored).items()}


def _note(topic: TopicWithSubscriptions, lives: Mapping[str, Life]) -> None:
    stored = {cluster: str(life) for cluster, life in lives.items()}
    topic.ledger.set_property(LIVES_PROPERTY, json.dumps(stored))


def _reason_against(topic: TopicWithSubscriptions, cluster: str, life: Life, before: Life | None) -> str | None:
    states = [each.progress.state for each in topic.subscriptions.values() if each.progress is not None]
    newest = max(topic.log.index.last_position(cluster) or EARLIEST, *_positions_of(cluster, states))
    return reason_against(life, None if before is None else before.identity, newest)


def _refusal(topic: TopicWithSubscriptions, cluster: str, reason: str) -> RequestError:
    log.error("rebuilt_cluster_refused", topic=str(topic.name), cluster=cluster, reason=reason)
    return RequestError(ServerError.NotAllowedError, f"cluster {cluster} is refused: {reason}")


def _positions_of(cluster: str, states: list[SubscriptionProgress]) -> Iterator[Position]:
    """Yield positions of ``cluster`` in states, including the highest one; at least EARLIEST."""
    yield EARLIEST
    for state in states:
        origin = state.origins.get(cluster)
        if origin is not None:
            yield origin.start
            yield origin.acknowledged.last or EARLIEST
            yield from (position for position, _ in origin.partial)
