"""The place of a replicated entry on its link in the form of earlier releases: properties after the source position.

Entries that these releases stored have it, and their brokers understand no other form. Applications see the properties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.base.position import Position

PREVIOUS_POSITION: Final = "__MAGNETAR_PREVIOUS_POSITION"
_FLOOR_POSITION: Final = "__MAGNETAR_FLOOR_POSITION"
_LINK_START: Final = "__MAGNETAR_LINK_START"

PROPERTIES: Final = frozenset({PREVIOUS_POSITION, _FLOOR_POSITION, _LINK_START})


def place_in(properties: Mapping[str, str], start: str) -> str:
    """Return the place that ``properties`` after the source position state, as text of ``link_place``."""
    words = [properties[key] for key in (PREVIOUS_POSITION, _FLOOR_POSITION) if key in properties]
    return " ".join([*words, start] if properties.get(_LINK_START) == "true" else words)


def properties_of(previous: Position, floor: Position, *, link_start: bool) -> Iterator[tuple[str, str]]:
    """Yield the properties that state the place of an entry; see ``Origin``."""
    yield PREVIOUS_POSITION, str(previous)
    if floor != previous:
        yield _FLOOR_POSITION, str(floor)
    if link_start:
        yield _LINK_START, "true"
