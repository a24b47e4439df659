"""The clean-up after a switch between clusters whose metadata are synchronized, so that a deletion could reach both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.real import SystemClock, SystemFiles
from magnetar.migration.machine.journal import Journal
from magnetar.migration.machine.records import StageMoved
from magnetar.migration.machine.tables import StageEvent
from tests.kit.clusters import UP_TIMEOUT_S, Up
from tests.kit.messages import numbered, publish, receive
from tests.kit.migration import Migrator
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

NAMESPACE = "shop/orders"
EU, US = (f"persistent://{NAMESPACE}/{name}" for name in ("eu", "us"))


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with Up(tmp_path, ("ewr", "jfk")) as running:
        rest = running.rest("ewr")
        rest.ensure("tenants/shop", {"adminRoles": [], "allowedClusters": ["ewr"]})
        rest.put(f"namespaces/{NAMESPACE}", {"replication_clusters": ["ewr"]})
        rest.put(f"persistent/{NAMESPACE}/us/partitions", 2)
        rest.put(f"persistent/{NAMESPACE}/eu")
        yield running


def note_verified(state: Path) -> None:
    """Note a verification without a difference; it has a test of its own."""
    journal = Journal(SystemFiles(), state, SystemClock())
    journal.append(StageMoved(StageEvent.VERIFIED, 0))
    journal.close()


def test_the_target_keeps_what_the_source_deletes(up: Up, tmp_path: Path) -> None:
    migrator = Migrator("shop", up.members["ewr"], up.members["jfk"], tmp_path / "migration")
    for topic in (EU, US):
        up.client("ewr").subscribe(topic, "billing").close()
        publish(up.client("ewr"), topic, numbered(20))
    assert migrator.run("run")["step"] == "ready"
    note_verified(migrator.state)
    assert migrator.run("switch")["released"] == []
    assert migrator.run("cleanup", "--force")["step"] == "done"
    assert up.rest("jfk").get(f"namespaces/{NAMESPACE}/replication") == ["jfk"]
    assert up.rest("ewr").get("tenants/shop")["allowedClusters"] == ["jfk"]
    wait_until(lambda: not topics_of(up, "ewr"), UP_TIMEOUT_S, what="no topic in ewr")
    assert up.rest("jfk").get(f"persistent/{NAMESPACE}/us/partitions")["partitions"] == 2
    for topic in (EU, US):
        consumer = up.client("ewr").subscribe(topic, "billing")  # a redirect leads to jfk
        found = sorted(int(message.data()) for message in receive(consumer, 20))
        assert found == list(range(20))
        consumer.close()


def topics_of(up: Up, name: str) -> Any:  # noqa: ANN401
    """Return the topics of a cluster; none if it does not know the namespace, because the tenant excludes it."""
    response = up.rest(name).request("GET", f"persistent/{NAMESPACE}")
    return response.json() if response.is_success else []
