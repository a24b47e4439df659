"""Taking apart what was closed, so that it is freed at once although its parts refer to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator


class Part:
    """Something that is taken apart once it was closed and nobody looks at it any more."""

    OWNS: ClassVar[tuple[str, ...]] = ()
    """Attributes with what belongs to it alone, and is taken apart with it: Parts, or mappings of them by name."""


def parts_of(part: Part) -> Iterator[Part]:
    """Yield what ``part`` owns, what these own, and itself at the end."""
    for name in part.OWNS:
        owned = vars(part).get(name)  # it may have been taken apart before
        for each in tuple(owned.values()) if isinstance(owned, Mapping) else (owned,):
            if each is not None:
                yield from parts_of(each)
    yield part


def count_of(part: Part) -> int:
    """Return how many things ``part`` is: itself, and what it owns directly."""
    owned = [vars(part).get(name) for name in part.OWNS]
    return 1 + sum(len(each) if isinstance(each, Mapping) else each is not None for each in owned)


def take_apart(part: Part) -> None:
    """Let go of everything that ``part`` refers to; it may not be used any more."""
    vars(part).clear()
