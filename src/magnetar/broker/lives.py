"""Refusing links of a cluster whose ledger ids repeat after it lost its data (ADR 13)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.life import LIFE_METADATA, Life
from magnetar.base.position import EARLIEST
from magnetar.geo.lives import reason_against

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.base.position import Position
    from magnetar.broker.topic import Topic

log = structlog.get_logger(__name__)

LIVES_PROPERTY = "magnetar.lives"
"""Managed-ledger property: for each other cluster, the identity of the life that the topic takes positions of; JSON."""


def check_life(topic: Topic, source: str, metadata: Mapping[str, str]) -> None:
    """Take note of the life of ``source`` that a link names in its ``metadata``; an older sender names none.

    Raises RequestError where its positions cannot be told from those of an earlier life. Durable on return.
    """
    text = metadata.get(LIFE_METADATA)
    if text is None:
        return
    try:
        life = Life.parse(text)
    except ValueError as error:
        raise RequestError(ServerError.MetadataError, str(error)) from error
    known: dict[str, str] = json.loads(topic.ledger.properties.get(LIVES_PROPERTY, "{}"))
    if known.get(source) == life.identity:
        return
    newest = max(_known_positions(topic, source))
    reason = reason_against(life, known.get(source), newest)
    if reason is not None:
        log.error("rebuilt_cluster_refused", topic=str(topic.name), cluster=source, reason=reason)
        raise RequestError(ServerError.NotAllowedError, f"cluster {source} is refused: {reason}")
    topic.ledger.set_property(LIVES_PROPERTY, json.dumps({**known, source: life.identity}))


def _known_positions(topic: Topic, source: str) -> Iterator[Position]:
    """Yield positions of ``source`` that the topic knows, the highest one among them."""
    yield topic.log.index.last_position(source) or EARLIEST
    for subscription in topic.subscriptions.values():
        if subscription.progress is not None:
            origin = subscription.progress.state.origins.get(source)
            if origin is not None:
                yield origin.start
                yield origin.acknowledged.last or EARLIEST
