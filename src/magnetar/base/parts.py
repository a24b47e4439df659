"""Taking apart what was closed, so that it is freed at once although its parts refer to each other."""

from __future__ import annotations

from typing import ClassVar


class Part:
    """Something that is taken apart once it was closed and nobody looks at it any more."""

    OWNS: ClassVar[tuple[str, ...]] = ()
    """Attributes with what belongs to it alone, and is taken apart with it: Parts, or dicts of them by name."""


def take_apart(part: Part) -> None:
    """Let go of everything that ``part`` and what it owns refer to; none of them may be used any more."""
    attributes = vars(part).copy()
    vars(part).clear()
    for name in part.OWNS:
        owned = attributes.get(name)  # it may have been taken apart before
        for each in owned.values() if isinstance(owned, dict) else (owned,):
            if each is not None:
                take_apart(each)
