"""The lifecycle of one topic in one broker, as a table. Pure.

::

    state       event             next
    -----       -----             ----
    UNLOADED    load              LOADING
    LOADING     loaded            OPEN
    LOADING     load failed       UNLOADED
    OPEN        dismiss           DISMISSING
    DISMISSING  dismissed         OPEN
    OPEN, DISMISSING
                unload            DRAINING
    OPEN, DISMISSING, DRAINING
                fence             FENCED
    DRAINING, FENCED
                drained           CLOSING
    CLOSING     closed            SETTLING
    OPEN, DISMISSING, DRAINING, FENCED
                delete            DELETING
    DELETING    deleted           UNLOADED
    DELETING    deletion failed   SETTLING
    SETTLING    settled           UNLOADED
    all but STOPPED, UNLOADED
                stop              STOPPED

What comes too late for a state has no effect (``_WITHOUT_EFFECT``). Anything else that is not in the table is a bug.
A topic that is loaded again has a new lifecycle.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    OnChange = Callable[["Lifecycle", "State", "Event"], None]
    """Told of a topic's lifecycle, the state before, and the event that ended it."""


class State(Enum):
    """How far a topic has come."""

    UNLOADED = "unloaded"
    """None of it is in memory. It may be on the disk."""
    LOADING = "loading"
    """It is read from the disk. Nobody is let in."""
    OPEN = "open"
    """It serves its clients."""
    DISMISSING = "dismissing"
    """It sends away all who publish, behind the receipts of what it took, and lets them in again afterwards."""
    DRAINING = "draining"
    """It is about to be unloaded, and waits until what it took is durable. Nobody is let in."""
    FENCED = "fenced"
    """It may not write any more: a write of its log failed, or another writer has it. It goes the way of DRAINING."""
    CLOSING = "closing"
    """Its clients are told to look it up again, and what is left is written."""
    DELETING = "deleting"
    """The same, and then it is deleted."""
    SETTLING = "settling"
    """It is closed, and what was written last is on its way to the disk."""
    STOPPED = "stopped"
    """The broker stops. It is not loaded again."""


class Event(Enum):
    """What happens to a topic."""

    LOAD = "load"
    LOADED = "loaded"
    LOAD_FAILED = "load failed"
    DISMISS = "dismiss"
    DISMISSED = "dismissed"
    UNLOAD = "unload"
    FENCE = "fence"
    DRAINED = "drained"
    CLOSED = "closed"
    SETTLED = "settled"
    DELETE = "delete"
    DELETED = "deleted"
    DELETION_FAILED = "deletion failed"
    STOP = "stop"


_LOADED = (State.OPEN, State.DISMISSING, State.DRAINING, State.FENCED)
_LEAVING = (State.DRAINING, State.FENCED, State.CLOSING, State.DELETING, State.SETTLING)
_GONE = (State.UNLOADED, State.STOPPED)

NEXT: dict[tuple[State, Event], State] = {
    (State.UNLOADED, Event.LOAD): State.LOADING,
    (State.LOADING, Event.LOADED): State.OPEN,
    (State.LOADING, Event.LOAD_FAILED): State.UNLOADED,
    (State.OPEN, Event.DISMISS): State.DISMISSING,
    (State.DISMISSING, Event.DISMISSED): State.OPEN,
    **{(state, Event.UNLOAD): State.DRAINING for state in (State.OPEN, State.DISMISSING)},
    **{(state, Event.FENCE): State.FENCED for state in (State.OPEN, State.DISMISSING, State.DRAINING)},
    **{(state, Event.DRAINED): State.CLOSING for state in (State.DRAINING, State.FENCED)},
    (State.CLOSING, Event.CLOSED): State.SETTLING,
    (State.SETTLING, Event.SETTLED): State.UNLOADED,
    **{(state, Event.DELETE): State.DELETING for state in _LOADED},
    (State.DELETING, Event.DELETED): State.UNLOADED,
    (State.DELETING, Event.DELETION_FAILED): State.SETTLING,
    **{(state, Event.STOP): State.STOPPED for state in State if state not in _GONE},
}
"""The rows of the table."""

_WITHOUT_EFFECT: dict[Event, frozenset[State]] = {
    Event.LOAD_FAILED: frozenset({State.STOPPED}),
    Event.DISMISS: frozenset({State.LOADING, State.DISMISSING, *_LEAVING, *_GONE}),
    Event.DISMISSED: frozenset({*_LEAVING, *_GONE}),
    Event.UNLOAD: frozenset(_LEAVING),
    Event.FENCE: frozenset({State.LOADING, State.FENCED, State.CLOSING, State.DELETING, State.SETTLING, *_GONE}),
    Event.DRAINED: frozenset({State.DELETING, State.SETTLING, *_GONE}),
    Event.CLOSED: frozenset({State.STOPPED}),
    Event.SETTLED: frozenset({State.STOPPED}),
    Event.DELETION_FAILED: frozenset({State.STOPPED}),
}
"""By event, the states that it comes too late for."""

SHUT = frozenset({State.LOADING, *_LEAVING})
"""The states in which nobody is let in: whoever wants the topic waits for the next one."""

_TAKING = frozenset({State.LOADING, State.OPEN})
"""The states in which entries are taken. Others drop them, unanswered: producers send them again to the next run."""


class Lifecycle:
    """The state of one topic, from when it is loaded until it is gone."""

    __slots__ = ("_on_change", "drops_entries", "state")

    def __init__(self, on_change: OnChange) -> None:
        """Begin as UNLOADED; ``on_change`` is told of each event that has an effect, in the new state."""
        self.state = State.UNLOADED
        self.drops_entries = True
        """Whether entries that come are dropped, unanswered."""
        self._on_change = on_change

    def apply(self, event: Event) -> bool:
        """Go to the next state; False if the event comes too late. Raises ValueError for one that may not come."""
        following = NEXT.get((self.state, event))
        if following is None:
            if self.state in _WITHOUT_EFFECT.get(event, ()):
                return False
            message = f"a topic that is {self.state.value} cannot take the event '{event.value}'"
            raise ValueError(message)
        before, self.state = self.state, following
        self.drops_entries = following not in _TAKING
        self._on_change(self, before, event)
        return True
