"""When the target counts as having everything, although clients go on publishing and acknowledging. Pure."""

from __future__ import annotations

CAUGHT_UP_S = 2.0
"""Entries and acknowledgements younger than this count as just made."""

WATCHED_S = 3.0
"""Time after which the age of entries is trusted. That of entries from before a topic was loaded begins when it is."""


def is_carried(backlog: int | None, delay_s: float | None, watched_s: float) -> bool:
    """Return whether a link has carried what was stored when it was first looked at, ``watched_s`` seconds ago.

    ``backlog`` and ``delay_s`` are the entries that the target does not have, and the age of the oldest; None: unknown.
    """
    if backlog is None or delay_s is None:
        return False
    return backlog == 0 or (delay_s < CAUGHT_UP_S and watched_s >= WATCHED_S)


def has_agreed(unconfirmed: int | None, age_s: float | None, first: int) -> bool:
    """Return whether the target has confirmed the acknowledgements that a subscription had when it was replicated.

    ``unconfirmed`` and ``age_s`` are the acknowledged entries that the target has not confirmed, and the age of the
    oldest; None: unknown. ``first`` is their number at the first look. It includes those from before the subscription
    was replicated, whose age is not counted: only a smaller number shows that the target has these.
    """
    if unconfirmed is None or age_s is None or age_s >= CAUGHT_UP_S:
        return False
    return unconfirmed == 0 or (unconfirmed < first and age_s > 0)
