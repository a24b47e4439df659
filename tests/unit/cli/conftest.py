from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.admin.client import AdminClient
from magnetar.cli import session
from magnetar.cli.main import ExitCode, main
from tests.unit.admin.fake_service import AppTransport, FakeAdminService
from tests.unit.cli.fake_cluster import new_cluster

if TYPE_CHECKING:
    from tests.unit.cli.fake_cluster import Run


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeAdminService:
    found = new_cluster()
    monkeypatch.setattr(session, "AdminClient", partial(AdminClient, transport=AppTransport(found)))
    return found


@pytest.fixture
def run(service: FakeAdminService, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(line: str) -> Any:  # noqa: ANN401 - any JSON value
        code = main([*line.split(), "--output", "json"])
        captured = capsys.readouterr()
        assert code is ExitCode.DONE, captured.err
        return json.loads(captured.out) if captured.out else None

    return call
