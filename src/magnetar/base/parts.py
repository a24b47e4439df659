"""Clearing the attributes of closed objects, so that reference counting frees them at once despite their cycles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator


class Part:
    """An object whose attributes are cleared after it was closed and is no longer used."""

    OWNS: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that are cleared with the object: Parts, or mappings of them by name."""


def parts_of(part: Part) -> Iterator[Part]:
    """Yield the Parts that ``part`` owns, directly or not, and ``part`` itself last."""
    for name in part.OWNS:
        owned = vars(part).get(name)  # the attributes may have been cleared before
        for each in tuple(owned.values()) if isinstance(owned, Mapping) else (owned,):
            if each is not None:
                yield from parts_of(each)
    yield part


def count_of(part: Part) -> int:
    """Return the number of Parts: ``part`` itself, and those that it owns directly."""
    owned = [vars(part).get(name) for name in part.OWNS]
    return 1 + sum(len(each) if isinstance(each, Mapping) else each is not None for each in owned)


def take_apart(part: Part) -> None:
    """Clear all attributes of ``part``, which must not be used any more."""
    vars(part).clear()
