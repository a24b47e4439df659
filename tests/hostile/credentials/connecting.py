"""CONNECT, AUTH_RESPONSE and requests with wrong credentials, and what the broker answers."""

from __future__ import annotations

import base64
import itertools
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from magnetar.wire.frame import FrameDecoder, encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.credentials.mutations import mutated
from tests.hostile.credentials.passwords import GOOD
from tests.kit.addresses import loopback_addresses
from tests.kit.child import LOOPBACK
from tests.kit.raw import FRAME_SIZE_MAX

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from tests.hostile.credentials.tokens import Keys

_FAILURES_MAX: Final = 8
"""Refused attempts after which a client takes another address, because the broker slows the old one down."""

_TIMEOUT_S: Final = 15.0

_QUIET_S: Final = 0.3

SUPERUSERS_ONLY: Final = b"/admin/v2/tenants"


def connect(method: str | None, data: bytes, **fields: Any) -> bytes:  # noqa: ANN401 - fields of the command
    """Return a CONNECT with these credentials."""
    built = pb.CommandConnect(client_version="mutation", protocol_version=20, auth_data=data, **fields)
    if method is not None:
        built.auth_method_name = method
    built.feature_flags.supports_auth_refresh = True
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect=built))


def response(method: str, data: bytes) -> bytes:
    """Return an AUTH_RESPONSE with these credentials."""
    built = pb.CommandAuthResponse(client_version="mutation", protocol_version=20)
    built.response.auth_method_name, built.response.auth_data = method, data
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.AUTH_RESPONSE, authResponse=built))


def damaged(frame: bytes, rng: random.Random) -> bytes:
    """Return a frame whose command is damaged, and whose sizes are right."""
    command = mutated(frame[8:], rng)
    return struct.pack(">II", len(command) + 4, len(command)) + command


PING: Final = encode_command(pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()))

LOOKUP: Final = encode_command(
    pb.BaseCommand(
        type=pb.BaseCommand.LOOKUP,
        lookupTopic=pb.CommandLookupTopic(topic="persistent://public/default/x", request_id=1),
    )
)
"""A request that only a client with a role gets an answer to."""


@dataclass(slots=True)
class Attacker:
    """A client that changes its address often enough not to be slowed down."""

    binary_port: int
    web_port: int
    keys: Keys
    hashed: bytes
    """The hash of the password, as the broker stores it."""
    addresses: Iterator[str] = field(default_factory=loopback_addresses)
    _attempts: Iterator[int] = field(default_factory=itertools.count)
    _address: str = ""

    def _source(self) -> tuple[str, int]:
        if next(self._attempts) % _FAILURES_MAX == 0:
            self._address = next(self.addresses)
        return self._address, 0

    def open(self, port: int) -> socket.socket:
        """Connect."""
        opened = socket.create_connection((LOOPBACK, port), _TIMEOUT_S, self._source())
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def say(self, data: bytes) -> list[str]:
        """Send frames to the binary port; return the names of the answers until the end of the connection."""
        with self.open(self.binary_port) as plain:
            return answers_to(plain, data)

    def request(self, headers: bytes, path: bytes = SUPERUSERS_ONLY) -> bytes:
        """Send a request to the web port; return the answer."""
        text = b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers + b"\r\n\r\n"
        with self.open(self.web_port) as plain:
            return everything(plain, text)


def everything(plain: socket.socket, data: bytes) -> bytes:
    """Send data, and return what the peer sends until it closes the connection."""
    found = b""
    try:
        plain.sendall(data)
        while part := plain.recv(1 << 16):
            found += part
    except ConnectionError:
        pass
    return found


def answers_to(plain: socket.socket, data: bytes) -> list[str]:
    """Send frames; return the names of the answers until the broker closes the connection, or accepts the client.

    A connection that stays open behind a PONG is taken for one on which the broker waits for more.
    """
    decoder, names = FrameDecoder(FRAME_SIZE_MAX), list[str]()
    try:
        plain.sendall(data)
        while "CONNECTED" not in names and (part := plain.recv(1 << 16)):
            names += [pb.BaseCommand.Type.Name(frame.command.type) for frame in decoder.feed(part)]
            if "PONG" in names:
                plain.settimeout(_QUIET_S)
    except ConnectionError:
        pass
    except TimeoutError:
        if "PONG" not in names:
            raise
    return names


def status_of(answer: bytes) -> str:
    """Return the status of an answer; ``closed`` without one."""
    return answer.split(b" ", 2)[1].decode() if answer.startswith(b"HTTP/1.1 ") else "closed"


_METHODS: Final = (None, "", "none", "TOKEN", "token ", "tls", "basic", "oauth2", "kerberos", "token\0", "x" * 5000)


def wrong_connect(keys: Keys, rng: random.Random) -> tuple[str, bytes]:
    """Return the kind of an attack, and a CONNECT that proves nothing."""
    kind = rng.randrange(4)
    if kind == 0:
        data = rng.choice((b"", keys.good, GOOD, b"\xff" * 100))
        method = rng.choice([each for each in _METHODS if (each, data) != ("basic", GOOD)])
        return "connect: another method", connect(method, data)
    if kind == 1:
        original = rng.choice(("root", "stranger", "proxy", " ", "x" * 5000, "root\0"))
        proved = keys.signed({"sub": rng.choice(("stranger", "root", "anyone"))})
        return "connect: an original principal of a client", connect("token", proved, original_principal=original)
    if kind == 2:
        original = rng.choice(("", " ", "proxy", "\t"))
        return "connect: a proxy for nobody", connect(
            "token", keys.signed({"sub": "proxy"}), original_principal=original
        )
    whole = connect("token", keys.forged({"alg": "RS256"}, {"sub": "root"}))
    return "connect: a damaged command", damaged(whole, rng) + PING


_HEADERS: Final = (
    b"X-Original-Principal: root",
    b"X-Pulsar-Auth-Method-Name: token",
    b"X-Pulsar-Auth-Method-Name: tls\r\nX-Original-Principal: root",
    b"Authorization: Bearer",
    b"Authorization: Bearer ",
    b"Authorization: bearer %b",
    b"Authorization: Token %b",
    b"Authorization: %b",
    b"authorization: Bearer %b, Bearer %b",
    b"Authorization: Bearer %b\r\nAuthorization: Bearer %b",
    b"Proxy-Authorization: Bearer %b",
    b"Cookie: token=%b",
    b"X-Forwarded-User: root",
    b"Authorization: Digest username=root",
    b"Authorization: Bearer %b\r\nX-Original-Principal: anyone",
    b"Authorization: Basic cm9vdDo=",
)


def wrong_headers(keys: Keys, rng: random.Random) -> tuple[str, bytes]:
    """Return the kind of an attack, and headers of a request that prove nothing."""
    return "request: other headers", rng.choice(_HEADERS).replace(b"%b", keys.good)


def bearer(token: bytes) -> bytes:
    """Return the header with a token; without the bytes that would end it."""
    return b"Authorization: Bearer " + token.translate(None, b"\r\n")


def basic(data: bytes) -> bytes:
    """Return the header with a name and a password."""
    return b"Authorization: Basic " + base64.b64encode(data)


_UNASKED: Final = 0.45
"""Share of AUTH_RESPONSEs without a challenge."""

CHALLENGE_S: Final = (0.05, 0.2, 1.0, 5.0)
"""Seconds until the broker asks for a new token; more if it is so busy that the token has expired when it checks it."""


def wrong_response(attacker: Attacker, rng: random.Random, token: bytes) -> tuple[str, list[str]]:
    """Send AUTH_RESPONSE where, or as, the broker does not accept it; return the kind, and the answers.

    Those to a proof that the broker accepts first are left out.
    """
    return _unasked(attacker, rng, token) if rng.random() < _UNASKED else _asked(attacker, rng, token)


def _unasked(attacker: Attacker, rng: random.Random, token: bytes) -> tuple[str, list[str]]:
    """Send AUTH_RESPONSE with a right token where the broker has not asked for it."""
    good, mine = response("token", attacker.keys.good), attacker.keys.signed({"sub": "stranger"})
    match rng.randrange(4):
        case 0:
            return "response: instead of CONNECT", attacker.say(good + LOOKUP)
        case 1:
            return "response: before CONNECT", attacker.say(good + connect("token", mine) + LOOKUP)
        case 2:
            return "response: while CONNECT is checked", attacker.say(connect("token", token) + good + LOOKUP)
        case _:
            return "response: without a challenge", _after(attacker, mine, "CONNECTED", good + LOOKUP) or []


def _asked(attacker: Attacker, rng: random.Random, token: bytes) -> tuple[str, list[str]]:
    """Answer a challenge with what does not prove the role of the connection."""
    keys = attacker.keys
    good, mine = response("token", keys.good), response("token", keys.signed({"sub": "stranger"}))
    kind, answer = rng.choice(
        (
            ("response: of another role", good),
            ("response: a wrong token", response("token", token)),
            ("response: another method", response(rng.choice(("", "none", "tls", "oauth2")), keys.good)),
            ("response: two at once", mine + good),
            ("response: a damaged command", damaged(response("token", token), rng) + PING),
        )
    )
    for seconds in CHALLENGE_S:
        expiring = keys.signed({"sub": "stranger", "exp": time.time() + seconds})
        answers = _after(attacker, expiring, "AUTH_CHALLENGE", answer)
        if answers is not None:
            return kind, answers
    message = "the broker accepts no token that is valid for a moment"
    raise TimeoutError(message)


def _after(attacker: Attacker, token: bytes, awaited: str, data: bytes) -> list[str] | None:
    """Prove the role of the token, wait for a command of the broker, then send the data; return the answers to them.

    None: the token is refused.
    """
    with attacker.open(attacker.binary_port) as plain:
        plain.sendall(connect("token", token))
        decoder, names = FrameDecoder(FRAME_SIZE_MAX), list[str]()
        while awaited not in names:
            part = plain.recv(1 << 16)
            if not part:
                return None
            names += [pb.BaseCommand.Type.Name(frame.command.type) for frame in decoder.feed(part)]
        return answers_to(plain, data)
