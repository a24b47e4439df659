"""The effects of a migration: what is due in each stage. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from magnetar.migration.machine.tables import BACK, FORWARD, Stage, StageEvent, TopicState

if TYPE_CHECKING:
    from magnetar.migration.machine.tables import Way


class EffectKind(Enum):
    """What the caller does next."""

    COPY_METADATA = "copy metadata"
    """Give the target the metadata of the source, and look for topics."""
    CREATE = "create topics"
    REMEMBER_CLUSTERS = "remember clusters"
    LINK = "open links"
    AWAIT_DATA = "wait for data"
    REMEMBER_SUBSCRIPTIONS = "remember subscriptions"
    REPLICATE = "replicate subscriptions"
    AWAIT_PROGRESS = "wait for progress"
    RELEASE = "release the fence"
    BEGIN_SWITCH = "choose topics to switch"
    BEGIN_RETURN = "choose topics to return"
    FENCE = "fence the cluster that clients leave"
    SETTLE = "wait for acknowledgements of messages in progress"
    DRAIN = "carry the last entries and acknowledgements"
    HAND_OVER = "tell the other cluster what does not travel by itself"
    SEAL = "make the fence final"
    ROUTE = "send clients to the other cluster"
    LIST = "look for topics that were created meanwhile"
    ROUTE_ALL = "send all clients to a cluster by one route"
    RESTORE = "restore the settings of subscriptions"
    UNLINK = "end links"
    DELETE = "delete topics of the source"


@dataclass(frozen=True, slots=True)
class Effect:
    """Something to do for topics or places; empty: for the whole migration. ROUTE_ALL names the cluster."""

    kind: EffectKind
    names: tuple[str, ...] = ()


_K, _T = EffectKind, TopicState
_ON_A_WAY: Final = (_K.FENCE, _K.SETTLE, _K.DRAIN, _K.HAND_OVER, _K.SEAL, _K.ROUTE, _K.RELEASE)


def _between(way: Way) -> dict[TopicState, EffectKind]:
    return dict(zip(way.between, _ON_A_WAY, strict=True))


OF_TOPICS: Final[dict[Stage, dict[TopicState, EffectKind]]] = {
    Stage.METADATA: {_T.FOUND: _K.CREATE},
    Stage.DATA: {_T.CREATED: _K.AWAIT_DATA},
    Stage.PROGRESS: {
        _T.CARRIED: _K.REMEMBER_SUBSCRIPTIONS,
        _T.REMEMBERED: _K.REPLICATE,
        _T.REPLICATED: _K.AWAIT_PROGRESS,
    },
    Stage.SWITCH: {_T.AGREED: _K.BEGIN_SWITCH, **_between(FORWARD)},
    Stage.ROLLBACK: {
        _T.AGREED: _K.BEGIN_SWITCH,
        **_between(FORWARD),
        _T.SWITCHED: _K.BEGIN_RETURN,
        **_between(BACK),
    },
    Stage.CLEANUP: {_T.SWITCHED: _K.RESTORE},
    Stage.ABANDON: dict.fromkeys(
        (_T.FOUND, _T.CREATED, _T.CARRIED, _T.REMEMBERED, _T.REPLICATED, _T.AGREED), _K.RESTORE
    ),
}
"""Effects that are due for topics, by stage and state."""

COMPLETIONS: Final = {
    Stage.METADATA: StageEvent.METADATA_COPIED,
    Stage.DATA: StageEvent.DATA_CARRIED,
    Stage.PROGRESS: StageEvent.PROGRESS_AGREED,
    Stage.SWITCH: StageEvent.SWITCHED,
    Stage.ROLLBACK: StageEvent.RETURNED,
    Stage.CLEANUP: StageEvent.CLEANED_UP,
    Stage.ABANDON: StageEvent.RESTORED,
}
"""Events at the end of the stages that end by themselves."""
