"""A link that its target refuses because of a backlog quota: it waits without delaying others or losing messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.geo.helpers import entries, log_of, wait_for_entries
from tests.kit.clusters import NAMES
from tests.kit.messages import numbered, publish
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from typing import Any

    from tests.kit.clusters import Up


def link(up: Up, topic: str) -> dict[str, Any]:
    """Return ewr's statistics of its link to jfk."""
    found: dict[str, Any] = up.rest("ewr").stats(topic)["replication"]["jfk"]
    return found


def test_a_held_link_waits_and_goes_on(up: Up, namespace: str) -> None:
    held, other = f"persistent://{namespace}/held", f"persistent://{namespace}/other"
    path = held.replace("://", "/")
    publish(up.client("ewr"), held, numbered(10))
    wait_for_entries(up, held, 10, NAMES)
    wait_until(lambda: link(up, held).get("replicationBacklog") == 0, what="receipts of all of them")
    jfk = up.rest("jfk")
    jfk.put(f"{path}/subscription/hoarder", "earliest")
    jfk.post(f"{path}/backlogQuota", {"limitSize": 1, "policy": "producer_request_hold"})
    jfk.put(f"{path}/unload")  # the link attaches again, and is refused
    publish(up.client("ewr"), held, numbered(10, first=10))
    publish(up.client("ewr"), other, numbered(10))
    wait_for_entries(up, held, 20, ["lga"])
    wait_for_entries(up, other, 10, NAMES)
    assert entries(up, "jfk", held) == 10
    # jfk refuses the link, so it is unknown whether it still has the confirmed entries.
    assert link(up, held)["replicationBacklogAtLeast"] == 10
    wait_until(lambda: link(up, held).get("parkedReason"), what="the reason why the link waits")

    jfk.delete(f"{path}/backlogQuota")
    wait_for_entries(up, held, 20, NAMES)
    for name in NAMES:
        assert log_of(up, name, held) == numbered(20)
