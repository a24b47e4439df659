"""The refusals of binary commands, compared with those of an Apache Pulsar with the same roles and permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from magnetar.authorization.commands import COMMANDS
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.access.binary import Outcome, Port, outcome_of
from tests.access.bodies import body_of, commands, has_internal_name
from tests.access.conftest import make_tenants
from tests.access.roles import ADMIN, READER, RIVAL, ROOT, SECRET, SETTINGS, STRANGER, UNPROVED, WRITER, token_of
from tests.interop.test_authorization import authorization_settings
from tests.kit.broker import Broker
from tests.kit.pulsar import PulsarStandalone

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

CLIENTS = (*UNPROVED, STRANGER, RIVAL, WRITER, READER, ADMIN, ROOT)
"""All clients of the matrix but replicators, which Apache Pulsar does not have."""

OURS = ("WATCH_LINKS", "CARRY_LINKS", "WATCH_LOSSES")
"""Commands that Apache Pulsar does not have."""

DIFFERENT = {
    # Apache Pulsar gives the schema of a topic to everybody, and lets everybody register one.
    "GET_SCHEMA",
    "GET_OR_CREATE_SCHEMA",
}


class Ports(NamedTuple):
    """The plain ports of two brokers with the same tenants."""

    magnetar: Port
    apache: Port


@pytest.fixture(scope="module")
def ports(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    directory = tmp_path_factory.mktemp("commands")
    magnetar = Broker(directory / "magnetar", "jfk", SETTINGS)
    apache = PulsarStandalone(directory / "apache", "apache", authorization_settings(SECRET, token_of(ROOT)))
    for server in (magnetar, apache):
        server.rest.authorize(token_of(ROOT))
    with magnetar, apache:
        for server in (magnetar, apache):
            make_tenants(server)
        yield Ports(Port(magnetar.service_url), Port(apache.service_url))


def compared() -> Iterator[tuple[str, pb.BaseCommand]]:
    """Yield the commands with a row in the table, with their names."""
    for command in commands():
        name = pb.BaseCommand.Type.Name(command.type)
        if command.type in COMMANDS and name not in (*OURS, *DIFFERENT) and not has_internal_name(command):
            yield name, command


def refusal(outcome: Outcome) -> Outcome | None:
    return outcome if outcome.kind in ("unproved", "refused") else None


def test_commands_are_refused_as_by_apache_pulsar(ports: Ports) -> None:
    wrong, refused = [], set()
    for name, command in compared():
        for client in CLIENTS:
            ours, theirs = (refusal(outcome_of(port, client, command)) for port in ports)
            if theirs is not None and theirs.kind == "refused":
                refused.add(name)
            if ours != theirs:
                wrong.append((name, str(body_of(command)), client, ours, theirs))
    assert wrong == []
    assert refused == {"LOOKUP", "PARTITIONED_METADATA", "GET_TOPICS_OF_NAMESPACE", "PRODUCER", "SUBSCRIBE"}


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_what_differs_on_purpose(ports: Ports, name: str) -> None:
    command = next(each for each in commands() if each.type == pb.BaseCommand.Type.Value(name))
    assert refusal(outcome_of(ports.magnetar, STRANGER, command)) is not None
    assert refusal(outcome_of(ports.apache, STRANGER, command)) is None
