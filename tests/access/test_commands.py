"""Each command of the binary protocol, by each client, on both ports."""

from __future__ import annotations

import secrets
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from magnetar.authorization.commands import demands
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.access.binary import Outcome, connect_of, outcome_of, pipelined_outcome_of
from tests.access.bodies import body_of, commands
from tests.access.roles import NO_CREDENTIALS, ROLES, ROOT, UNPROVED, permitted
from tests.kit.raw import RawConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.access.conftest import Secured

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

NOT_PROVED = Outcome("unproved", "Failed to authenticate", "AuthenticationError")
IDS = ["plain", "TLS"]


def refusal_of(client: str, command: pb.BaseCommand) -> Outcome | None:
    """Return the refusal that a client must get; None if the command is permitted."""
    if client in UNPROVED:
        return NOT_PROVED
    for demand in demands(command.type, body_of(command)):
        if client not in permitted(demand.need, demand.resource.cluster):
            return Outcome("refused", demand.refusal, "AuthorizationError")
    return None


@pytest.fixture
def victim(secured: Secured) -> Iterator[RawConnection]:
    """A client with the ids of the commands, which must not notice any of them."""
    kept = f"persistent://shop/web/kept-{secrets.token_hex(4)}"
    with RawConnection(secured.broker.service_url) as connection:
        connection.socket.sendall(connect_of(ROOT))
        connection.expect("CONNECTED")
        connection.create_producer(kept, 99)
        connection.publish(b"kept", 99)
        connection.subscribe(kept, "s", 99)
        connection.flow(10, 99)
        connection.expect("MESSAGE")
        yield connection
        assert connection.is_answering()
        assert connection.taken() == []
        (consumer,) = secured.broker.rest.stats(kept)["subscriptions"]["s"]["consumers"]
        assert consumer["unackedMessages"] == 1
        connection.request("UNSUBSCRIBE", "SUCCESS", consumer_id=99)


@pytest.mark.parametrize("port", [0, 1], ids=IDS)
@pytest.mark.usefixtures("victim")
def test_each_command_is_refused_or_answered_as_the_table_says(secured: Secured, port: int) -> None:
    wrong, counts = [], Counter[str]()
    for command in commands():
        got = {client: outcome_of(secured.binary[port], client, command) for client in (*UNPROVED, *ROLES)}
        counts.update(outcome.kind for outcome in got.values())
        for client, outcome in got.items():
            expected = refusal_of(client, command)
            is_right = outcome.kind not in ("unproved", "refused") if expected is None else outcome == expected
            if not is_right:
                wrong.append((pb.BaseCommand.Type.Name(command.type), str(body_of(command)), client, outcome, expected))
        if not list(demands(command.type, body_of(command))):
            assert len({got[role] for role in ROLES}) == 1, "a role makes no difference where none is required"
    print(IDS[port], dict(counts))  # noqa: T201 - shown by -rP
    assert wrong == []


@pytest.mark.usefixtures("victim")
def test_a_command_before_the_end_of_the_handshake_is_not_answered(secured: Secured) -> None:
    for command in commands():
        if command.type in (pb.BaseCommand.PING, pb.BaseCommand.PONG, pb.BaseCommand.AUTH_RESPONSE):
            continue
        for client in (NO_CREDENTIALS, ROOT):
            assert pipelined_outcome_of(secured.binary[0], client, command) == [], (client, command)
