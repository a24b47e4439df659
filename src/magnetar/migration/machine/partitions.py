"""The partitions of a topic, which have one route. Pure."""

from __future__ import annotations

from itertools import count, takewhile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container

_MARK: Final = "-partition-"


def route_scope(topic: str) -> str:
    """Return the scope of the route of a topic: the topic without partitions, or the partitioned topic."""
    base, mark, index = topic.rpartition(_MARK)
    return base if mark and index.isdecimal() else topic


def partitions_of(topic: str, known: Container[str]) -> list[str]:
    """Return the known partitions of the topic to which a partition belongs; else only the topic."""
    scope = route_scope(topic)
    if scope == topic:
        return [topic]
    found = list(takewhile(known.__contains__, (f"{scope}{_MARK}{index}" for index in count())))
    return found if topic in found else [*found, topic]
