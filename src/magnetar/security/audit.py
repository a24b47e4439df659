"""Events of the audit log: who did what, from where, and with which result. They contain no credentials."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from magnetar.security.principal import NOBODY

if TYPE_CHECKING:
    from magnetar.security.principal import Principal

TEXT_LENGTH_MAX: Final = 1000
"""Characters of each text of an event; clients choose some of them."""


class Kind(StrEnum):
    """Kinds of events."""

    AUTHENTICATION = "authentication"
    """A client was refused because it has proved no role."""
    AUTHORIZATION = "authorization"
    """A role was refused because it has no permission."""
    ADMIN = "admin_change"
    """A request of the REST API that may change something."""
    METADATA = "metadata_change"
    """A change that an operator made in another cluster, and that was applied here."""
    SUPPRESSED = "suppressed"
    """Further events of a source that were not written."""


class Result(StrEnum):
    """Results of what was attempted."""

    ALLOWED = "allowed"
    DENIED = "denied"
    FAILED = "failed"
    """Permitted, but not done."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One event. Texts that are empty are not known, or the event has none of them."""

    kind: Kind
    result: Result
    operation: str
    """Operation in Pulsar's terms, method of the REST request, or method of authentication."""
    resource: str = ""
    """Tenant, namespace, topic, or path of the REST request."""
    principal: Principal = NOBODY
    """The role that acted."""
    address: str = ""
    """Address of the client, with or without its port."""
    subscription: str = ""
    cluster: str = ""
    """Cluster in which the change was made."""
    reason: str = ""
    status: int | None = None
    """Status of the answer to a REST request."""
    count: int | None = None
    """Number of events that this one stands for."""


def line(event: AuditEvent, cluster: str, now: float) -> str:
    """Return an event of a cluster as one line of JSON; ``now`` is in seconds since the epoch."""
    time = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    texts = {
        "event": event.kind.value,
        "result": event.result.value,
        "role": event.principal.role,
        "original_role": event.principal.original,
        "address": event.address.removeprefix("/"),
        "operation": event.operation,
        "resource": event.resource,
        "subscription": event.subscription,
        "changed_in": event.cluster,
        "reason": event.reason,
    }
    found: dict[str, object] = {"time": time, "cluster": cluster}
    found |= {name: text[:TEXT_LENGTH_MAX] for name, text in texts.items() if text}
    found |= {name: each for name, each in (("status", event.status), ("count", event.count)) if each is not None}
    return json.dumps(found)
