"""The states of a migration, as tables. Pure.

A migration is in one stage at a time. Within a stage, each topic has a state of its own, and so has each place: a
namespace, or a topic with its own list of clusters.

::

    stage       event              next        if
    -----       -----              ----        --
    METADATA    metadata copied    DATA        all topics are created in the target
    DATA        data carried       PROGRESS    all places are linked, no link has a backlog
    PROGRESS    progress agreed    READY       the progress of all topics agrees
    DATA, PROGRESS, READY
                look again         METADATA
    READY       verified           READY
    READY       switch             SWITCH      the last verification found no difference
    SWITCH      switched           SWITCHED    clients of all topics are sent to the target, by one route
    SWITCH, SWITCHED
                roll back          ROLLBACK
    ROLLBACK    returned           READY       clients of all topics are sent to the source, by one route
    SWITCHED    clean up           CLEANUP
    CLEANUP     cleaned up         DONE        all topics of the source are deleted, all places unlinked
    METADATA, DATA, PROGRESS, READY
                abandon            ABANDON
    ABANDON     restored           ABANDONED   settings of all topics are restored, all places unlinked

    topic             event        next                     in the stage
    -----             -----        ----                     ------------
    FOUND             created      CREATED                  METADATA
    CREATED           carried      CARRIED                  DATA
    CARRIED, REPLICATED, AGREED
                      remembered   REMEMBERED               PROGRESS
    REMEMBERED        replicated   REPLICATED               PROGRESS
    REPLICATED        agreed       AGREED                   PROGRESS
    SWITCHED          restored     RESTORED                 CLEANUP
    FOUND to AGREED   restored     RESTORED                 ABANDON
    RESTORED          deleted      DELETED                  CLEANUP

A topic goes to the target, and back, by the same steps (ADR 39). The way back has states of its own.

::

    topic to the target      event      next        meaning of the state
    -------------------      -----      ----        --------------------
    AGREED                   fence      FENCING     the cluster that clients leave is told to fence the topic
    FENCING                  fenced     SETTLING    clients may acknowledge what they hold, nothing else
    SETTLING                 closed     CLOSED      nothing changes any more; the last entries travel
    CLOSED                   drained    DRAINED     the other cluster has everything
    DRAINED                  seal       SEALING     it is decided: the topic only goes forward
    SEALING                  sealed     SEALED      the fence is final, durably
    SEALED                   routed     SWITCHED    the route leads to the other cluster
    FENCING to DRAINED       release    RELEASING   a step took too long, or the operator rolls back
    SETTLING to SEALING      expired    RELEASING   the fence ended by itself, because nobody renewed its lease
    RELEASING                released   AGREED      clients go on where they were

    topic to the source      event      next
    -------------------      -----      ----
    SWITCHED                 fence      FENCING_BACK
    FENCING_BACK to SEALED_BACK, as above; the last one: AGREED
    RELEASING_BACK           released   SWITCHED

The way to the target is taken in the stages SWITCH and ROLLBACK, the way back in ROLLBACK. A rollback releases the
topics on their way to the target, except those that only go forward: these arrive first, and then return.

A fence is final only if the broker accepts it, and only one that has not expired can become final. So a topic that is
SEALING can still expire, and one that is SEALED cannot.

All partitions of a topic have one route. So none is SEALING before all are DRAINED, none is routed before all are
SEALED, and none is released while one of them is SEALING or SEALED.

::

    place             event        next                     in the stage
    -----             -----        ----                     ------------
    FOUND             remembered   REMEMBERED               DATA
    REMEMBERED        linked       LINKED                   DATA
    LINKED            unlinked     UNLINKED                 CLEANUP, ABANDON
    FOUND, REMEMBERED unlinked     UNLINKED                 ABANDON

Anything else is refused.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Stage(Enum):
    """What a migration does now."""

    METADATA = "metadata"
    """Creates in the target what the source has."""
    DATA = "data"
    """Opens links, and waits until they have carried the messages of the source."""
    PROGRESS = "progress"
    """Replicates subscriptions, and waits until their progress agrees."""
    READY = "ready"
    """Messages and progress follow continuously. The operator verifies, and switches."""
    SWITCH = "switch"
    """Sends clients to the target, topic by topic."""
    SWITCHED = "switched"
    ROLLBACK = "rollback"
    """Sends clients back to the source, topic by topic."""
    CLEANUP = "cleanup"
    """Restores the settings of subscriptions, ends the links, and deletes the topics of the source."""
    DONE = "done"
    ABANDON = "abandon"
    """Restores the settings of subscriptions, and ends the links. Clients never left the source."""
    ABANDONED = "abandoned"


class StageEvent(Enum):
    """An event of the whole migration."""

    METADATA_COPIED = "metadata copied"
    DATA_CARRIED = "data carried"
    PROGRESS_AGREED = "progress agreed"
    LOOK_AGAIN = "look again"
    VERIFIED = "verified"
    SWITCH = "switch"
    SWITCHED = "switched"
    ROLL_BACK = "roll back"
    RETURNED = "returned"
    CLEAN_UP = "clean up"
    CLEANED_UP = "cleaned up"
    ABANDON = "abandon"
    RESTORED = "restored"


class TopicState(Enum):
    """How far a topic has come."""

    FOUND = "found"
    CREATED = "created"
    CARRIED = "carried"
    REMEMBERED = "remembered"
    """The journal has the settings of its subscriptions, which may change from now on."""
    REPLICATED = "replicated"
    AGREED = "agreed"
    FENCING = "fencing"
    SETTLING = "settling"
    CLOSED = "closed"
    DRAINED = "drained"
    SEALING = "sealing"
    SEALED = "sealed"
    RELEASING = "releasing"
    SWITCHED = "switched"
    FENCING_BACK = "fencing back"
    SETTLING_BACK = "settling back"
    CLOSED_BACK = "closed back"
    DRAINED_BACK = "drained back"
    SEALING_BACK = "sealing back"
    SEALED_BACK = "sealed back"
    RELEASING_BACK = "releasing back"
    RESTORED = "restored"
    DELETED = "deleted"


class TopicEvent(Enum):
    """An event of one topic."""

    CREATED = "created"
    CARRIED = "carried"
    REMEMBERED = "remembered"
    REPLICATED = "replicated"
    AGREED = "agreed"
    FENCE = "fence"
    FENCED = "fenced"
    CLOSED = "closed"
    DRAINED = "drained"
    SEAL = "seal"
    SEALED = "sealed"
    ROUTED = "routed"
    RELEASE = "release"
    EXPIRED = "expired"
    RELEASED = "released"
    RESTORED = "restored"
    DELETED = "deleted"


class PlaceState(Enum):
    """Whether the topics of a place are linked to the target."""

    FOUND = "found"
    REMEMBERED = "remembered"
    """The journal has its list of clusters, which may change from now on."""
    LINKED = "linked"
    UNLINKED = "unlinked"


class PlaceEvent(Enum):
    """An event of one place."""

    REMEMBERED = "remembered"
    LINKED = "linked"
    UNLINKED = "unlinked"


_S, _SE = Stage, StageEvent
BEFORE_SWITCH: Final = (_S.METADATA, _S.DATA, _S.PROGRESS, _S.READY)
"""Stages in which all clients use the source."""

STAGES: Final[dict[tuple[Stage, StageEvent], Stage]] = {
    (_S.METADATA, _SE.METADATA_COPIED): _S.DATA,
    (_S.DATA, _SE.DATA_CARRIED): _S.PROGRESS,
    (_S.PROGRESS, _SE.PROGRESS_AGREED): _S.READY,
    **{(stage, _SE.LOOK_AGAIN): _S.METADATA for stage in (_S.DATA, _S.PROGRESS, _S.READY)},
    (_S.READY, _SE.VERIFIED): _S.READY,
    (_S.READY, _SE.SWITCH): _S.SWITCH,
    (_S.SWITCH, _SE.SWITCHED): _S.SWITCHED,
    (_S.SWITCH, _SE.ROLL_BACK): _S.ROLLBACK,
    (_S.SWITCHED, _SE.ROLL_BACK): _S.ROLLBACK,
    (_S.ROLLBACK, _SE.RETURNED): _S.READY,
    (_S.SWITCHED, _SE.CLEAN_UP): _S.CLEANUP,
    (_S.CLEANUP, _SE.CLEANED_UP): _S.DONE,
    **{(stage, _SE.ABANDON): _S.ABANDON for stage in BEFORE_SWITCH},
    (_S.ABANDON, _SE.RESTORED): _S.ABANDONED,
}
"""Rows of the first table."""

_T, _TE = TopicState, TopicEvent
_BEFORE_FENCE: Final = (_T.FOUND, _T.CREATED, _T.CARRIED, _T.REMEMBERED, _T.REPLICATED, _T.AGREED)

_PROGRESS: Final = frozenset({_S.PROGRESS})


class Way(NamedTuple):
    """The states of a topic on its way from one cluster to the other."""

    start: TopicState
    fencing: TopicState
    settling: TopicState
    closed: TopicState
    drained: TopicState
    sealing: TopicState
    sealed: TopicState
    releasing: TopicState
    end: TopicState

    @property
    def revocable(self) -> tuple[TopicState, ...]:
        """States with a fence that can be released."""
        return self.fencing, self.settling, self.closed, self.drained

    @property
    def committed(self) -> tuple[TopicState, ...]:
        """States from which the topic only goes forward."""
        return self.sealing, self.sealed

    @property
    def between(self) -> tuple[TopicState, ...]:
        """All states between the clusters."""
        return (*self.revocable, *self.committed, self.releasing)

    def rows(
        self, stages: frozenset[Stage]
    ) -> dict[tuple[TopicState, TopicEvent], tuple[TopicState, frozenset[Stage]]]:
        """Return the rows of the table."""
        following = {
            (self.start, _TE.FENCE): self.fencing,
            (self.fencing, _TE.FENCED): self.settling,
            (self.settling, _TE.CLOSED): self.closed,
            (self.closed, _TE.DRAINED): self.drained,
            (self.drained, _TE.SEAL): self.sealing,
            (self.sealing, _TE.SEALED): self.sealed,
            (self.sealed, _TE.ROUTED): self.end,
            (self.releasing, _TE.RELEASED): self.start,
            **{(state, _TE.RELEASE): self.releasing for state in self.revocable},
            **{(state, _TE.EXPIRED): self.releasing for state in (*self.revocable[1:], self.sealing)},
        }
        return {row: (state, stages) for row, state in following.items()}


FORWARD: Final = Way(
    *(_T.AGREED, _T.FENCING, _T.SETTLING, _T.CLOSED, _T.DRAINED, _T.SEALING, _T.SEALED, _T.RELEASING, _T.SWITCHED)
)
BACK: Final = Way(
    *(_T.SWITCHED, _T.FENCING_BACK, _T.SETTLING_BACK, _T.CLOSED_BACK, _T.DRAINED_BACK),
    *(_T.SEALING_BACK, _T.SEALED_BACK, _T.RELEASING_BACK, _T.AGREED),
)

TOPICS: Final[dict[tuple[TopicState, TopicEvent], tuple[TopicState, frozenset[Stage]]]] = {
    (_T.FOUND, _TE.CREATED): (_T.CREATED, frozenset({_S.METADATA})),
    (_T.CREATED, _TE.CARRIED): (_T.CARRIED, frozenset({_S.DATA})),
    **{(state, _TE.REMEMBERED): (_T.REMEMBERED, _PROGRESS) for state in (_T.CARRIED, _T.REPLICATED, _T.AGREED)},
    (_T.REMEMBERED, _TE.REPLICATED): (_T.REPLICATED, _PROGRESS),
    (_T.REPLICATED, _TE.AGREED): (_T.AGREED, _PROGRESS),
    **FORWARD.rows(frozenset({_S.SWITCH, _S.ROLLBACK})),
    **BACK.rows(frozenset({_S.ROLLBACK})),
    (_T.SWITCHED, _TE.RESTORED): (_T.RESTORED, frozenset({_S.CLEANUP})),
    **{(state, _TE.RESTORED): (_T.RESTORED, frozenset({_S.ABANDON})) for state in _BEFORE_FENCE},
    (_T.RESTORED, _TE.DELETED): (_T.DELETED, frozenset({_S.CLEANUP})),
}
"""Rows of the second table: the next state, and the stages in which the event is legal."""

_P, _PE = PlaceState, PlaceEvent

PLACES: Final[dict[tuple[PlaceState, PlaceEvent], tuple[PlaceState, frozenset[Stage]]]] = {
    (_P.FOUND, _PE.REMEMBERED): (_P.REMEMBERED, frozenset({_S.DATA})),
    (_P.REMEMBERED, _PE.LINKED): (_P.LINKED, frozenset({_S.DATA})),
    (_P.LINKED, _PE.UNLINKED): (_P.UNLINKED, frozenset({_S.CLEANUP, _S.ABANDON})),
    (_P.FOUND, _PE.UNLINKED): (_P.UNLINKED, frozenset({_S.ABANDON})),
    (_P.REMEMBERED, _PE.UNLINKED): (_P.UNLINKED, frozenset({_S.ABANDON})),
}
"""Rows of the third table."""

REQUIRED_TOPICS: Final[dict[StageEvent, frozenset[TopicState]]] = {
    _SE.METADATA_COPIED: frozenset(_BEFORE_FENCE) - {_T.FOUND},
    _SE.DATA_CARRIED: frozenset(_BEFORE_FENCE) - {_T.FOUND, _T.CREATED},
    _SE.PROGRESS_AGREED: frozenset({_T.AGREED}),
    _SE.SWITCHED: frozenset({_T.SWITCHED}),
    _SE.RETURNED: frozenset({_T.AGREED}),
    _SE.CLEANED_UP: frozenset({_T.DELETED}),
    _SE.RESTORED: frozenset({_T.RESTORED}),
}
"""States that all topics must have before an event."""

REQUIRED_PLACES: Final[dict[StageEvent, frozenset[PlaceState]]] = {
    _SE.DATA_CARRIED: frozenset({_P.LINKED}),
    _SE.CLEANED_UP: frozenset({_P.UNLINKED}),
    _SE.RESTORED: frozenset({_P.UNLINKED}),
}
"""States that all places must have before an event."""
