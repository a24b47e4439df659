"""The phases of a migration fence, as a table. Pure.

::

    fence     set by                                          next
    -----     ------                                          ----
    none      any migration: settling                         settling
    settling  the same migration and epoch: settling, closed  that phase, with a new lease
    closed    the same migration and epoch: closed, final     that phase, with a new lease
    final     the same migration and epoch: final             final
    settling, closed
              the same migration, a later epoch: settling     settling, of the later epoch
    settling, closed
              removed by the same migration, not with an earlier epoch; or its lease is over
                                                              none
    final     removed so, and the request says that it removes a decision
                                                              none

Everything else is refused, and changes nothing. A fence that was removed is not remembered: the migration begins anew.
So a migration whose lease was over can neither close the topic nor decide: it learns that clients went on here.

A lease ends by the monotonic clock of the broker that gave it. After a restart, or another load of the topic, it ends
by the wall clock, and at the latest one whole lease after the load. So a clock that was set back prolongs it by at most
one lease. One that was set forward ends it early, which releases the clients; no decision of the migration depends
on the clocks of two machines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Self


class Phase(Enum):
    """What a fenced topic still accepts from clients. It never accepts publishes, and sends no messages."""

    SETTLING = "settling"
    """Acknowledgements of messages that consumers hold."""
    CLOSED = "closed"
    """Nothing."""
    FINAL = "final"
    """Nothing, and no lease ends it: another cluster may serve the clients."""


NEXT: Final = {
    None: frozenset({Phase.SETTLING}),
    Phase.SETTLING: frozenset({Phase.SETTLING, Phase.CLOSED}),
    Phase.CLOSED: frozenset({Phase.CLOSED, Phase.FINAL}),
    Phase.FINAL: frozenset({Phase.FINAL}),
}
"""Phases that the migration of a fence may set, by the present phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A migration fence."""

    migration: str
    epoch: int
    """Number of the migration's attempt to switch the topic."""
    phase: Phase
    lease_s: float
    ends_at: float | None = None
    """End of the lease by the wall clock, in seconds since the epoch; None for a final fence."""

    def begun(self, now: float) -> Self:
        """Return the fence with a lease that begins ``now``."""
        return replace(self, ends_at=None if self.phase is Phase.FINAL else now + self.lease_s)

    def remaining_s(self, now: float) -> float | None:
        """Return the rest of the lease at a load of the topic, at most a whole lease; None for a final fence."""
        return None if self.ends_at is None else min(max(self.ends_at - now, 0.0), self.lease_s)

    def __str__(self) -> str:
        """Return the fence as refusals name it."""
        return f"migration {self.migration} (epoch {self.epoch}, {self.phase.value})"

    def encode(self) -> str:
        """Return the stored form."""
        return json.dumps(
            {
                "migration": self.migration,
                "epoch": self.epoch,
                "phase": self.phase.value,
                "leaseSeconds": self.lease_s,
                "endsAt": self.ends_at,
            }
        )

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read the stored form; raises ValueError, KeyError or TypeError."""
        stored = json.loads(text)
        return cls(
            migration=stored["migration"],
            epoch=stored["epoch"],
            phase=Phase(stored["phase"]),
            lease_s=stored["leaseSeconds"],
            ends_at=stored["endsAt"],
        )


def reason_against(stored: Fence | None, wanted: Fence) -> str:
    """Return why a fence may not be set; empty if it may. A stored fence whose lease is over counts as None."""
    if stored is not None and stored.migration != wanted.migration:
        return f"the topic is fenced by {stored}, not by migration {wanted.migration}"
    if stored is not None and wanted.epoch < stored.epoch:
        return f"the topic is fenced by {stored}: epoch {wanted.epoch} is over"
    if stored is not None and wanted.epoch > stored.epoch and stored.phase is Phase.FINAL:
        return f"the topic is fenced by {stored}: epoch {wanted.epoch} may begin when this decision is removed"
    if stored is not None and wanted.epoch == stored.epoch:
        allowed = ", ".join(sorted(each.value for each in NEXT[stored.phase]))
        refusal = f"the topic is fenced by {stored}: the next phase may be {allowed}, not {wanted.phase.value}"
        return "" if wanted.phase in NEXT[stored.phase] else refusal
    refusal = (
        f"there is no fence of migration {wanted.migration} with epoch {wanted.epoch}: it was not set, was removed, or "
        "its lease is over, and clients may have gone on here\nhint: begin with the phase settling and a later epoch"
    )
    return "" if wanted.phase in NEXT[None] else refusal


def reason_against_removal(stored: Fence | None, migration: str, epoch: int, *, is_decision: bool) -> str:
    """Return why a fence may not be removed; empty if it may, or if there is none.

    ``is_decision``: the request says that it removes a final fence.
    """
    if stored is None:
        return ""
    if stored.migration != migration or epoch < stored.epoch:
        return f"the topic is fenced by {stored}, not by migration {migration} with epoch {epoch}"
    if stored.phase is Phase.FINAL and not is_decision:
        return (
            f"the topic is fenced by {stored}, and another cluster may serve its clients\nhint: remove the fence with "
            "final=true when the route leads to this cluster"
        )
    return ""
