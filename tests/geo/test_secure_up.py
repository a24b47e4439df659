"""``magnetar up --secure``: the official client connects as it says, and may do what its role has been granted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pulsar
import pytest

from magnetar.cli.main import ExitCode, main
from tests.geo.helpers import wait_for_backlog, wait_for_entries
from tests.kit.clusters import UP_TIMEOUT_S, Up
from tests.kit.messages import connect, numbered, publish, receive

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC = "persistent://public/default/tried"


class SecureUp(Up):
    """Secured clusters."""

    def __init__(self, directory: Path, names: Sequence[str], *arguments: str) -> None:
        super().__init__(directory, names, "--secure", *arguments)

    def client_of(self, name: str, role: str) -> pulsar.Client:
        """Return a client with the token of a role."""
        security = self.ready["security"]
        return connect(
            self.members[name].service_url,
            authentication=pulsar.AuthenticationToken(Path(security["tokens"][role]).read_text()),
            tls_trust_certs_file_path=security["trust"],
            tls_validate_hostname=True,
        )

    def client(self, name: str) -> pulsar.Client:
        """Return the client of the superuser."""
        if name not in self._clients:
            self._clients[name] = self.client_of(name, "admin")
        return self._clients[name]


def test_a_client_may_do_what_its_role_was_granted_and_the_audit_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    with SecureUp(tmp_path, ("one",), "--no-pipeline", "--profiles") as up:
        client = up.client_of("one", "app")
        with pytest.raises(pulsar.AuthorizationError):
            client.create_producer(TOPIC)
        grant = ["namespaces", "grant-permission", "public/default", "--role", "app", "--actions", "produce,consume"]
        assert main(["--cluster", "one", *grant]) is ExitCode.DONE
        consumer = client.subscribe(TOPIC, "s")
        client.create_producer(TOPIC).send(b"x")
        consumer.acknowledge(consumer.receive(5000))
        client.close()
        log = tmp_path / "data" / "logs" / "one-audit.log"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    told = [(each["event"], each["result"], each["role"], each["resource"]) for each in events]
    assert ("authorization", "denied", "app", TOPIC) in told
    assert ("admin_change", "allowed", "admin", "/admin/v2/namespaces/public/default/permissions/app") in told
    tokens = [each.read_text() for each in (tmp_path / "data" / "security").glob("*.token")]
    texts = [each.read_text(errors="replace") for each in (tmp_path / "data" / "logs").iterdir()]
    assert len(tokens) == 4
    assert not any(token in text for token in tokens for text in texts)


@pytest.mark.long
@pytest.mark.timeout(3 * UP_TIMEOUT_S)
def test_messages_and_acknowledgements_are_replicated(tmp_path: Path) -> None:
    names, topic = ("ewr", "jfk"), "persistent://geo/secured/orders"
    with SecureUp(tmp_path, names) as up:
        up.make_namespace("geo/secured", names)
        consumer = up.client("ewr").subscribe(topic, "s", replicate_subscription_state_enabled=True)
        publish(up.client("ewr"), topic, numbered(10))
        wait_for_entries(up, topic, 10, names)
        receive(consumer, 10, acknowledge=True)
        wait_for_backlog(up, topic, "s", 0, names)
