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

Events that arrive too late for a state have no effect (``_WITHOUT_EFFECT``). Any other event outside the table is a
bug. A topic that is loaded again has a new lifecycle.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    OnChange = Callable[["Lifecycle", "State", "Event"], None]
    """Called with the lifecycle of a topic, its previous state, and the event."""


class State(Enum):
    """State of a topic."""

    UNLOADED = "unloaded"
    """The topic is not in memory. It may exist on the disk."""
    LOADING = "loading"
    """The topic is read from the disk. No client may attach."""
    OPEN = "open"
    """The topic serves its clients."""
    DISMISSING = "dismissing"
    """The topic disconnects its producers after the receipts of their entries, and admits producers afterwards."""
    DRAINING = "draining"
    """The topic will be unloaded, and waits until its entries are durable. No client may attach."""
    FENCED = "fenced"
    """The topic must not write: a write of its log failed, or another writer owns it. It continues like DRAINING."""
    CLOSING = "closing"
    """Clients are disconnected, and remaining state is written."""
    DELETING = "deleting"
    """Clients are disconnected, remaining state is written, and the topic is deleted."""
    SETTLING = "settling"
    """The topic is closed; its last writes are not durable yet."""
    STOPPED = "stopped"
    """The broker stops. The topic is not loaded again."""


class Event(Enum):
    """Event in the lifecycle of a topic."""

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
"""Rows of the table."""

_WITHOUT_EFFECT: dict[Event, frozenset[State]] = {
    Event.LOAD_FAILED: frozenset({State.STOPPED}),
    Event.DISMISS: frozenset({State.LOADING, State.DISMISSING, *_LEAVING, *_GONE}),
    Event.DISMISSED: frozenset({*_LEAVING, *_GONE}),
    Event.UNLOAD: frozenset(_LEAVING),
    Event.FENCE: frozenset({State.LOADING, State.FENCED, State.CLOSING, State.DELETING, State.SETTLING, *_GONE}),
    Event.DRAINED: frozenset({State.DELETING, State.SETTLING, *_GONE}),
    Event.CLOSED: frozenset({State.STOPPED}),
    Event.SETTLED: frozenset({State.STOPPED}),
    Event.DELETED: frozenset({State.STOPPED}),
    Event.DELETION_FAILED: frozenset({State.STOPPED}),
}
"""States in which an event has no effect, because it arrives too late."""

SHUT = frozenset({State.LOADING, *_LEAVING})
"""States in which no client may attach; requests for the topic wait for the next state."""

_TAKING = frozenset({State.LOADING, State.OPEN})
"""States that accept entries. In others they are dropped without an answer; producers send them again later."""


class Lifecycle:
    """State of one topic, from its loading to its end."""

    __slots__ = ("_on_change", "drops_entries", "state")

    def __init__(self, on_change: OnChange) -> None:
        """Begin as UNLOADED; ``on_change`` is called after each event that has an effect, in the new state."""
        self.state = State.UNLOADED
        self.drops_entries = True
        """Whether arriving entries are dropped without an answer."""
        self._on_change = on_change

    def apply(self, event: Event) -> bool:
        """Go to the next state; return False if the event is too late. Raises ValueError for an illegal event."""
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
