from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.offline.check import check
from tests.guides.machine import Machine
from tests.guides.page import guide

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(300)
def test_the_guide_leads_to_a_broker_that_serves(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine, machine.shell({"broker.ewr.example": machine}) as shell:
        shell.follow(guide("one-broker").blocks)
        machine.wait_until_healthy()
        assert machine.rest.get("clusters") == ["ewr"]
        policies = machine.rest.get("namespaces/shop/orders")
        assert policies["retention_policies"] == {"retentionTimeInMinutes": 24 * 60, "retentionSizeInMB": 30 * 1024}
        (quota,) = policies["backlog_quota_map"].values()
        assert (quota["limitSize"], quota["policy"]) == (20 << 30, "producer_request_hold")
    assert check(machine.data).intact
