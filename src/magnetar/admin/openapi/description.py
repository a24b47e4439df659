"""What a route states about itself beside its method and path: body, parameters, answer and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from magnetar.metadata.policy.document import Int, Long
from magnetar.metadata.policy.values import BacklogQuotaType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import TypeAdapter

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Raw:
    """A body that is not JSON."""

    about: str
    media_type: str = JSON
    """Pulsar labels text as JSON."""
    is_optional: bool = False
    """Whether the answer may be 204 instead."""


TEXT = Raw("Text without quotes")
OPTIONAL_TEXT = Raw(TEXT.about, is_optional=True)
ENTRY = Raw("The payload; the metadata are in headers X-Pulsar-…", "application/octet-stream")
METRICS = Raw("Metrics in the text format of Prometheus", "text/plain")

EMPTY = Raw("Nothing", "")
"""An answer without a body whose status is not 204."""


class Description(TypedDict, total=False):
    """Properties of a route. Refusals that follow from its path or body need not be stated."""

    is_without_effect: bool
    """Whether the broker stores what the route sets, and ignores it."""
    takes: TypeAdapter[Any] | Raw
    """Type of the body; absent: the route takes none."""
    query: Sequence[str]
    """Parameters of the query, each in QUERY."""
    gives: Any
    """Type of the answer, or a Raw body; ``… | None``: possibly 204. Absent: 204. Never: each request is refused."""
    status: int
    """Status of an answer with a body; absent: 200."""
    refuses: Sequence[int]
    """Further statuses of refusals."""


QUERY: Mapping[str, Any] = {
    "after": str,
    "applied": bool,
    "backlogQuotaType": BacklogQuotaType,
    "checkAllowAutoCreation": bool,
    "deleted": bool,
    "digests": bool,
    "epoch": Long,
    "excludeConsumers": bool,
    "excludePublishers": bool,
    "field": str,
    "final": bool,
    "force": bool,
    "getEarliestTimeInBacklog": bool,
    "getPreciseBacklog": bool,
    "initialPosition": Literal["earliest", "latest"],
    "isGlobal": bool,
    "key": str,
    "listenerName": str,
    "messagePosition": Long,
    "messageTTL": Int,
    "migration": str,
    "mode": Literal["PERSISTENT", "NON_PERSISTENT", "ALL"],
    "perPartition": bool,
    "replicated": bool,
    "resource": str,
    "splitAlgorithmName": Literal[
        "range_equally_divide", "topic_count_equally_divide", "specified_positions_divide", "flow_or_qps_equally_divide"
    ],
    "subscriptionBacklogSize": bool,
    "topics": list[str],
    "unload": bool,
    "version": str,
    "waitMs": Long,
}
"""Types of all parameters of queries. A name has one meaning in the whole API. All are optional."""
