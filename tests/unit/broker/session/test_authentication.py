"""CONNECT and AUTH_RESPONSE of a broker that authenticates, on a virtual clock."""

from __future__ import annotations

import random
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from google.protobuf.descriptor import FieldDescriptor
from structlog.testing import capture_logs

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.limits import Limit
from magnetar.broker.authentication.authentication import Authentication
from magnetar.broker.session.handshake.renewal import Due, due
from magnetar.broker.session.receiving import receive
from magnetar.broker.session.session import Session
from magnetar.security.attempts import FAILURES_AT_ONCE
from magnetar.security.audit import AuditEvent, Kind, Result
from magnetar.security.principal import NOBODY, Principal
from magnetar.security.providers.keys import secret_key
from magnetar.security.providers.service import AuthenticationService
from magnetar.security.providers.tokens import TokenOptions, TokenProvider
from magnetar.sim.cluster import Cluster
from magnetar.wire import commands
from magnetar.wire.connection import Connection, Role
from magnetar.wire.frame import FrameDecoder
from magnetar.wire.proto import pulsar_api_pb2 as pb

SECRET = bytes(range(32))
REFRESH = pb.FeatureFlags(supports_auth_refresh=True)


def cluster(settings: dict[str, Any] | None = None, **service: Any) -> Cluster:  # noqa: ANN401 - of the service
    made = Cluster(settings=settings or {})
    provider = TokenProvider(TokenOptions(secret_key(SECRET, "tokenSecretKey")))
    authentication = Authentication(
        AuthenticationService([provider], **service), made.clock, made.environment.limit_hits, made.environment.record
    )
    object.__setattr__(made.environment, "authentication", authentication)
    return made


class Stranger:
    """A client that has not connected yet. It is also the transport of its session."""

    def __init__(self, at: Cluster, address: str = "/10.0.0.1:4000") -> None:
        self.cluster, self.heard, self.is_closed = at, list[pb.BaseCommand](), False
        self._decoder = FrameDecoder()
        self._connection = Connection(Role.BROKER, now=at.clock.monotonic())
        self.session = Session(at.environment, at.domains, self, self._connection)
        self.session.address = address

    def write(self, frame: bytes) -> None:
        self.heard += [each.command for each in self._decoder.feed(frame)]

    def close(self) -> None:
        self.is_closed = True
        self.session.closed()

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def probe(self) -> None: ...

    def say(self, data: bytes) -> None:
        def read() -> None:
            now = self.cluster.clock.monotonic()
            left = receive(self.session, self._connection.receive_gathering(data, now))
            while left or self._connection.decoder.has_more:
                left = receive(self.session, left or self._connection.receive_gathering(b"", now))

        failures: list[RemoteProtocolError] = []

        def tried() -> None:
            try:
                read()
            except RemoteProtocolError as error:
                failures.append(error)
                self.close()  # as the server does

        self.cluster.do(tried)
        if failures:
            raise failures[0]

    def take(self) -> list[pb.BaseCommand]:
        heard, self.heard = self.heard, []
        return heard


def token(at: Cluster, seconds: float | None = None, subject: str = "alice") -> bytes:
    claims: dict[str, Any] = {"sub": subject}
    if seconds is not None:
        claims["exp"] = at.clock.now() + seconds
    return jwt.encode(claims, SECRET, "HS256").encode()


def connect(data: bytes | None, method: str = "token", **fields: Any) -> bytes:  # noqa: ANN401 - of CONNECT
    body = pb.CommandConnect(client_version="x", protocol_version=20, auth_method_name=method, auth_data=data, **fields)
    return commands.encode(body)


def connected(at: Cluster, seconds: float | None = None, **fields: Any) -> Stranger:  # noqa: ANN401 - of CONNECT
    client = Stranger(at)
    client.say(connect(token(at, seconds), **fields))
    assert [each.type for each in client.take()] == [pb.BaseCommand.CONNECTED]
    return client


def answer(data: bytes) -> bytes:
    return commands.auth_response(client_version="x", auth_method_name="token", auth_data=data)


def test_a_client_with_a_valid_token_is_connected_with_its_role() -> None:
    at = cluster()
    client = connected(at)
    assert client.session.principal == Principal("alice", "token")
    assert client.session.renewal is None
    assert at.environment.authentication is not None
    assert at.environment.authentication.successes == {"token": 1}


@pytest.mark.parametrize(
    "command",
    [connect(b"wrong"), connect(b""), connect(None), connect(b"x", "none"), connect(b"x", "basic"), connect(b"x", "")],
)
def test_another_client_gets_an_error_and_is_disconnected(command: bytes) -> None:
    client = Stranger(cluster())
    client.say(command)
    (error,) = client.take()
    assert (error.error.request_id, error.error.error) == ((1 << 64) - 1, pb.AuthenticationError)
    assert error.error.message == "Failed to authenticate"
    assert client.is_closed
    assert client.session.principal is NOBODY
    assert not client.session.has_connected


def test_the_log_of_a_refusal_has_the_reason_and_not_the_proof() -> None:
    with capture_logs() as lines:
        Stranger(cluster()).say(connect(b"canary.canary.canary"))
    (line,) = [each for each in lines if each["event"] == "authentication_failed"]
    assert line["reason"] == "the token is not a valid signed token"
    assert line["address"] == "/10.0.0.1:4000"
    assert "canary" not in str(lines)


def audited(at: Cluster) -> list[AuditEvent]:
    """Return the events that the cluster records from now on."""
    events: list[AuditEvent] = []
    object.__setattr__(at.environment, "audit", SimpleNamespace(record=events.append))
    return events


def test_each_refusal_is_an_event_of_the_audit_log() -> None:
    at = cluster()
    events = audited(at)
    Stranger(at).say(connect(b"canary.canary.canary"))
    connected(at)
    reason = "the token is not a valid signed token"
    assert events == [AuditEvent(Kind.AUTHENTICATION, Result.DENIED, "token", address="/10.0.0.1:4000", reason=reason)]


VALUES: dict[int, object] = {FieldDescriptor.TYPE_STRING: "x", FieldDescriptor.TYPE_BYTES: b"x"}


def fill(message: Any) -> None:  # noqa: ANN401 - any message
    """Set the required fields."""
    for each in message.DESCRIPTOR.fields:
        if each.is_required and each.message_type is None:
            setattr(message, each.name, VALUES.get(each.type, each.default_value or 1))
        elif each.is_required:
            fill(getattr(message, each.name))


@pytest.mark.parametrize(
    "kind", [each for each in pb.BaseCommand.Type.values() if each not in {pb.BaseCommand.PING, pb.BaseCommand.PONG}]
)
def test_no_command_is_accepted_before_authentication(kind: pb.BaseCommand.Type.ValueType) -> None:
    """Neither before CONNECT, nor together with a CONNECT whose proof is still checked."""
    field = {each.number: each for each in pb.BaseCommand.DESCRIPTOR.fields}[kind]
    command = pb.BaseCommand(type=kind)
    body = getattr(command, field.name)
    fill(body)
    body.SetInParent()
    frame = commands.encode(body) if kind != pb.BaseCommand.CONNECT else connect(b"wrong")
    at = cluster()
    for before in (b"", connect(token(at))):
        if kind == pb.BaseCommand.CONNECT and not before:
            continue
        client = Stranger(at)
        with pytest.raises(RemoteProtocolError, match=r"is not legal for a BROKER|without a challenge"):
            client.say(before + frame)
        assert not client.session.has_connected


def test_a_client_that_leaves_before_it_is_connected_is_forgotten() -> None:
    at = cluster()
    client = Stranger(at)

    def leave_at_once() -> None:
        frames = client._connection.receive_gathering(connect(token(at)), at.clock.monotonic())
        receive(client.session, frames)
        client.session.closed()

    at.do(leave_at_once)
    assert client.take() == []
    assert not client.session.has_connected


def test_an_expired_token_is_renewed_on_the_connection() -> None:
    at = cluster()
    client = connected(at, 100, feature_flags=REFRESH)
    at.loop.advance(99)
    assert client.take() == []
    at.loop.advance(2)
    (challenge,) = client.take()
    assert challenge.authChallenge.challenge.auth_data == b"PulsarAuthRefresh"
    assert challenge.authChallenge.challenge.auth_method_name == "token"
    client.say(answer(token(at, 1000)))
    assert client.session.principal.expires_at == pytest.approx(at.clock.now() + 1000, abs=1)
    at.loop.advance(900)
    assert client.take() == []
    assert not client.is_closed
    at.loop.advance(200)
    client.say(answer(token(at)))
    assert client.session.principal.expires_at is None
    at.loop.advance(10_000)
    assert not client.is_closed


def test_a_client_that_cannot_renew_is_disconnected_at_expiry() -> None:
    at = cluster()
    client = connected(at, 100)
    at.loop.advance(99)
    assert not client.is_closed
    at.loop.advance(2)
    assert client.is_closed
    assert client.take() == []


def test_a_client_that_does_not_answer_in_time_is_disconnected() -> None:
    at = cluster({"authenticationRefreshCheckSeconds": 20})
    client = connected(at, 100, feature_flags=REFRESH)
    at.loop.advance(101)
    assert not client.is_closed
    at.loop.advance(18)
    assert not client.is_closed
    at.loop.advance(2)
    assert client.is_closed


@pytest.mark.parametrize("subject", ["bob", "expired", "wrong"])
def test_a_renewal_must_prove_the_same_role(subject: str) -> None:
    at = cluster()
    events = audited(at)
    client = connected(at, 100, feature_flags=REFRESH)
    at.loop.advance(101)
    client.take()
    data = {"bob": token(at, 100, "bob"), "expired": token(at, -1), "wrong": b"x"}[subject]
    client.say(answer(data))
    assert client.is_closed
    assert [each.error.error for each in client.take()] == [pb.AuthenticationError] * (subject != "bob")
    assert [(event.kind, event.result) for event in events] == [(Kind.AUTHENTICATION, Result.DENIED)]


@pytest.mark.parametrize("seconds", [None, 100])
def test_an_answer_without_a_challenge_ends_the_connection(seconds: float | None) -> None:
    at = cluster()
    client = connected(at, seconds, feature_flags=REFRESH)
    with pytest.raises(RemoteProtocolError, match="without a challenge"):
        client.say(answer(token(at)))


def test_a_closed_connection_has_no_timer() -> None:
    at = cluster()
    client = connected(at, 100, feature_flags=REFRESH)
    client.close()
    at.loop.advance(200)
    assert client.take() == []


def test_a_proxy_names_the_role_for_which_it_acts() -> None:
    at = cluster(proxy_roles=frozenset({"proxy"}))
    client = Stranger(at)
    client.say(connect(token(at, subject="proxy"), original_principal="bob"))
    assert client.session.principal.acting_role == "bob"
    for subject, original in (("proxy", None), ("alice", "bob")):
        refused = Stranger(at)
        refused.say(connect(token(at, subject=subject), original_principal=original))
        assert refused.is_closed


def test_the_credentials_of_the_client_of_a_proxy_are_checked_if_configured() -> None:
    at = cluster({"authenticateOriginalAuthData": True}, proxy_roles=frozenset({"proxy"}))
    for data, is_right in ((token(at, 50, "bob").decode(), True), ("wrong", False), (None, False)):
        client = Stranger(at)
        proxy = token(at, subject="proxy")
        fields: dict[str, Any] = {
            "original_principal": "bob",
            "original_auth_method": "token",
            "original_auth_data": data,
        }
        client.say(connect(proxy, feature_flags=REFRESH, **fields))
        assert client.is_closed is not is_right
        if is_right:
            at.loop.advance(51)  # the proxy cannot renew the credentials of its client
            assert client.is_closed


def test_an_anonymous_client_has_the_configured_role() -> None:
    at = cluster(anonymous_role="guest")
    client = Stranger(at)
    client.say(connect(None, "none"))
    assert client.session.principal == Principal("guest", "none")


def test_connections_of_a_role_are_limited_and_those_who_operate_are_exempt() -> None:
    settings = {"authenticationEnabled": True, "superUserRoles": "root", "replicatorRoles": "link=*"}
    at = cluster({**settings, "brokerMaxConnectionsPerRole": 2}, proxy_roles=frozenset({"proxy"}))
    first, _ = connected(at), connected(at)
    refused = Stranger(at)
    refused.say(connect(token(at)))
    (error,) = refused.take()
    assert (error.error.error, error.error.request_id) == (pb.TooManyRequests, (1 << 64) - 1)
    assert (
        error.error.message == "Reached the maximum number of connections of role alice (brokerMaxConnectionsPerRole)"
    )
    assert refused.is_closed
    assert at.environment.limit_hits.counts()[Limit.CONNECTIONS_PER_ROLE.value] == 1
    through_proxy = Stranger(at)
    through_proxy.say(connect(token(at, subject="proxy"), original_principal="alice"))
    assert through_proxy.is_closed
    for role in ("root", "link", "root", "link", "root", "link", "bob"):
        other = Stranger(at)
        other.say(connect(token(at, subject=role)))
        assert other.session.has_connected
    first.close()
    assert connected(at).session.has_connected


def test_failed_attempts_of_an_address_are_slowed_down() -> None:
    at = cluster()
    for _ in range(FAILURES_AT_ONCE):
        Stranger(at).say(connect(b"wrong"))
    waiting = [Stranger(at) for _ in range(8)]
    for client in waiting:
        client.say(connect(token(at)))
    other = Stranger(at, "/10.0.0.2:4000")
    other.say(connect(token(at)))
    assert other.session.has_connected
    assert [client.session.has_connected for client in waiting] == [False] * 8
    refused = [client for client in waiting if client.is_closed]
    assert len(refused) == 3
    assert refused[0].take()[0].error.error == pb.TooManyRequests
    at.loop.advance(6)
    assert sum(client.session.has_connected for client in waiting) == 5
    assert at.environment.limit_hits.counts()[Limit.AUTHENTICATION_ATTEMPTS.value] == 8


def test_clients_without_credentials_do_not_slow_others_down() -> None:
    at = cluster()
    for _ in range(50):
        Stranger(at).say(connect(None, "none"))
    assert connected(at).session.has_connected


@pytest.mark.parametrize(
    ("expires_at", "is_challenged", "can_renew", "method", "expected"),
    [
        (None, False, True, "token", Due.NOTHING),
        (11.0, False, False, "token", Due.NOTHING),
        (10.0, False, True, "token", Due.CHALLENGE),
        (10.0, True, True, "token", Due.CLOSE),
        (10.0, False, False, "token", Due.CLOSE),
        (10.0, False, True, "tls", Due.CLOSE),
    ],
)
def test_what_is_due(
    expires_at: float | None, is_challenged: bool, can_renew: bool, method: str, expected: Due
) -> None:
    principal = Principal("alice", method, expires_at=expires_at)
    assert due(principal, 10.0, is_challenged=is_challenged, can_renew=can_renew) is expected


def test_no_mutation_of_a_handshake_gives_access() -> None:
    at, chance, valid = cluster(), random.Random(7), 0
    right = connect(token(at))
    for number in range(600):
        frame = bytearray(right)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(4, len(frame))
            match chance.randrange(3):
                case 0:
                    frame[place] = chance.randrange(256)
                case 1:
                    del frame[place]
                case _:
                    frame.insert(place, chance.randrange(256))
        client = Stranger(at, f"/10.{number // 250}.{number % 250}.1:4000")
        with suppress(RemoteProtocolError):
            client.say(bytes(frame))
        if client.session.has_connected:
            valid += 1
            assert client.session.principal.role == "alice"
    assert valid < 300  # mutations of other fields are harmless
    assert not at.loop.problems
