"""50,000 mutations of handshakes, tokens, passwords and certificates: no access, no crash, bounded memory.

A client with a right token publishes and consumes meanwhile.
"""

from __future__ import annotations

import base64
import os
import random
import re
import ssl
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from passlib.hash import ldap_sha1

from tests.hostile.credentials import certificates, handshakes
from tests.hostile.credentials.connecting import (
    Attacker,
    basic,
    bearer,
    connect,
    status_of,
    wrong_connect,
    wrong_headers,
    wrong_response,
)
from tests.hostile.credentials.mutations import mutated
from tests.hostile.credentials.passwords import PASSWORD, USER, password
from tests.hostile.credentials.tokens import Keys, token
from tests.kit.addresses import loopback_addresses
from tests.kit.broker import Broker
from tests.kit.certificates import Authority
from tests.kit.child import LOOPBACK, free_ports
from tests.kit.raw import RawConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(1800)]

SEED: Final = 19

SHARE: Final = float(os.environ.get("MAGNETAR_MUTATIONS_SHARE", "1"))
"""Share of the mutations; less for a first look."""

TOPIC: Final = "persistent://public/default/witness"
AT_ONCE: Final = 10
"""Threads of attacks that wait most of the time."""

STEP: Final = 200
"""Maximum number of mutations between two messages of the client with a right token."""

STEP_S: Final = 5.0
"""Maximum seconds between two of them, so that it answers the broker's PINGs."""

MEBIBYTE: Final = 1 << 20
GROWTH_MAX: Final = 64 * MEBIBYTE
"""Maximum growth of the broker: its memory of failed addresses, and what the allocator keeps."""

DEFECTS: Final = (
    "authentication_defect",
    "connection_failed",
    "Traceback",
    "because of a defect",
    "exception was never",
)


@dataclass
class Witness:
    """The client with a right token, on a connection with TLS."""

    connection: RawConnection
    published: int = 0
    longest_s: float = 0.0
    went_on_at: float = 0.0

    def goes_on(self) -> None:
        """Publish a message, receive it, and acknowledge it; raises TimeoutError after ANSWER_TIMEOUT_S."""
        self.went_on_at = began = time.monotonic()
        payload = b"%d" % self.published
        receipt = self.connection.publish(payload, sequence_id=self.published)
        self.connection.flow(1)
        message = self.connection.expect("MESSAGE")
        assert message.message_id.entryId == receipt.message_id.entryId
        self.connection.acknowledge(message.message_id)
        self.published += 1
        self.longest_s = max(self.longest_s, time.monotonic() - began)


@dataclass
class Stage:
    """The broker, the authorities, and what has happened."""

    broker: Broker
    binary_port: int
    web_port: int
    """Ports with TLS."""
    keys: Keys
    authority: Authority
    clients: certificates.Signer
    """The authority of certificates of clients."""
    attacker: Attacker
    witness: Witness
    directory: Path
    counts: Counter[str] = field(default_factory=Counter)
    resident: list[int] = field(default_factory=list)

    @property
    def contexts(self) -> handshakes.Contexts:
        """Contexts of clients without a role."""
        return handshakes.Contexts(str(self.authority.trust), self.authority.issue("other", common_name="other"))

    def successes(self) -> float:
        """Return how often the broker has accepted credentials."""
        found = re.findall(r"^pulsar_authentication_success_total\{.* (\S+)$", self.broker.rest.metrics(), re.MULTILINE)
        return sum(map(float, found))

    def repeat_at_once(self, times: int, attack: Callable[[random.Random], str], name: str) -> None:
        """Attack by several threads. Many attacks wait for answers that never come."""

        def some(number: int) -> Counter[str]:
            rng = random.Random(f"{SEED} {name} {number}")
            return Counter(attack(rng) for _ in range(int(times / AT_ONCE * SHARE)))

        self.run_at_once(some)

    def run_at_once(self, some: Callable[[int], Counter[str]]) -> None:
        """Call ``some`` with the number of each thread, and count the outcomes that it returns."""
        with ThreadPoolExecutor(AT_ONCE) as threads:
            running = [threads.submit(some, number) for number in range(AT_ONCE)]
            while not all(each.done() for each in running):
                self.witness.goes_on()
                self.resident.append(self.broker.resident_bytes())
                time.sleep(0.1)
            for each in running:
                self.counts += each.result()

    def repeat(self, times: int, attack: Callable[[random.Random], str], name: str) -> None:
        """Attack, while the client with a right token goes on, and count the outcomes."""
        rng = random.Random(f"{SEED} {name}")
        for number in range(int(times * SHARE)):
            self.counts[attack(rng)] += 1
            if number % STEP == 0 or time.monotonic() - self.witness.went_on_at > STEP_S:
                self.witness.goes_on()
                self.resident.append(self.broker.resident_bytes())


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A broker that accepts tokens of an RSA key, passwords and certificates."""
    directory = tmp_path_factory.mktemp("mutations")
    authority, keys, clients = Authority(directory), Keys.generated(), certificates.authority()
    trust = directory / "clients.pem"
    trust.write_bytes(clients.certificate.public_bytes(Encoding.PEM) + authority.trust.read_bytes())
    public = keys.broker.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    hashed = ldap_sha1.hash(PASSWORD)
    binary, web = free_ports(2)
    settings = {
        "authenticationEnabled": "true",
        "authenticationProviders": "token,openid,basic,tls",
        "tokenPublicKey": f"data:;base64,{base64.b64encode(public).decode()}",
        "openIDAllowedTokenIssuers": "https://127.0.0.1:9",
        "openIDAllowedAudiences": "pulsar",
        "basicAuthConf": base64.b64encode(USER + b":" + hashed.encode()).decode(),
        "authorizationEnabled": "true",
        "superUserRoles": "root",
        "proxyRoles": "proxy",
        "brokerServicePortTls": binary,
        "webServicePortTls": web,
        **authority.settings(),
        "tlsTrustCertsFilePath": trust,
    }
    broker = Broker(directory / "broker", settings=settings)
    broker.rest.authorize(keys.good.decode())
    attacker = Attacker(broker.binary_port, broker.web_port, keys, hashed.encode())
    context = ssl.create_default_context(cafile=str(authority.trust))
    with broker, RawConnection(f"pulsar+ssl://{LOOPBACK}:{binary}", context) as connection:
        connection.socket.sendall(connect("token", keys.good))
        connection.expect("CONNECTED")
        connection.create_producer(TOPIC)
        connection.subscribe(TOPIC, "s")
        witness = Witness(connection)
        yield Stage(broker, binary, web, keys, authority, clients, attacker, witness, directory)


def test_tokens_and_passwords(stage: Stage) -> None:
    """26,500 mutations on the ports without TLS, where nothing else hides what the broker answers."""
    attacker, keys = stage.attacker, stage.keys
    before, same = stage.successes(), Counter[str]()

    def say(kind: str, data: bytes) -> str:
        answers = attacker.say(data)
        assert "CONNECTED" not in answers, (kind, data)
        return f"{kind}: {'refused' if 'ERROR' in answers else 'closed'}"

    def ask(kind: str, headers: bytes) -> str:
        status = status_of(attacker.request(headers))
        assert status in ("400", "401", "431", "closed"), (kind, headers, status)
        return f"{kind}, in a request: {status}"

    def by_token(rng: random.Random, *, is_request: bool) -> str:
        kind, found = token(keys, rng)
        if keys.is_good(found.translate(None, b"\r\n").strip() if is_request else found):
            same[kind] += 1
            return f"{kind}: still the same token"
        return ask(kind, bearer(found)) if is_request else say(kind, connect("token", found))

    def by_password(rng: random.Random, *, is_request: bool) -> str:
        kind, found = password(attacker.hashed, rng)
        return ask(kind, basic(found)) if is_request else say(kind, connect("basic", found))

    stage.repeat(9_000, lambda rng: by_token(rng, is_request=False), "tokens")
    stage.repeat(8_000, lambda rng: by_token(rng, is_request=True), "tokens in requests")
    stage.repeat(3_000, lambda rng: by_password(rng, is_request=False), "passwords")
    stage.repeat(2_500, lambda rng: by_password(rng, is_request=True), "passwords in requests")
    stage.repeat(3_000, lambda rng: say(*wrong_connect(keys, rng)), "CONNECT")
    stage.repeat(1_000, lambda rng: ask(*wrong_headers(keys, rng)), "headers")
    assert stage.successes() == before, "the broker has accepted what proves nothing"
    assert status_of(attacker.request(bearer(keys.good))) == "200"


def test_responses_to_challenges(stage: Stage) -> None:
    """1,500 answers to challenges, or to none."""

    def some(number: int) -> Counter[str]:
        rng = random.Random(f"{SEED} responses {number}")
        addresses = loopback_addresses(1_000_000 * (number + 1))
        attacker, counts = Attacker(stage.broker.binary_port, 0, stage.keys, b"", addresses), Counter[str]()
        for _ in range(int(1_500 / AT_ONCE * SHARE)):
            found = stage.keys.good
            while stage.keys.is_good(found):
                found = token(stage.keys, rng)[1]
            kind, answers = wrong_response(attacker, rng, found)
            assert not {"CONNECTED", "LOOKUP_RESPONSE"}.intersection(answers), (kind, answers)
            counts[f"{kind}: {'refused' if 'ERROR' in answers else 'closed'}"] += 1
        return counts

    stage.run_at_once(some)


def test_handshakes(stage: Stage) -> None:
    """18,800 handshakes with mutated bytes; those that are complete nevertheless give no role."""
    contexts, ports = stage.contexts.all, (stage.binary_port, stage.web_port)
    request = connect(None, b"")
    before = stage.successes()

    def shake(rng: random.Random, flight: int) -> str:
        index = rng.randrange(2)
        asked = request if index == 0 else b"GET /admin/v2/tenants HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        context = rng.choice(contexts if index == 0 else contexts[::2])  # a certificate is the role of a request
        outcome, answer = handshakes.shake(ports[index], context, asked, (rng, flight))
        assert not answer or (answer.startswith(b"HTTP/1.1 401 ") if index else b"Failed to authenticate" in answer)
        return f"handshake, flight {flight}: {outcome}"

    def damage(rng: random.Random) -> str:
        hello = handshakes.hello(rng.choice(contexts))
        parts = [mutated(hello, rng) for _ in range(rng.randint(1, 4))]
        if rng.random() < 0.2:
            parts = [hello[at : at + 1] for at in range(rng.randrange(60))]
        return f"records of hellos: {handshakes.send_raw(rng.choice(ports), parts)}"

    stage.repeat_at_once(10_800, lambda rng: shake(rng, 0), "hellos")
    stage.repeat_at_once(6_000, lambda rng: shake(rng, 1), "second flights")
    stage.repeat_at_once(2_000, damage, "records")
    assert stage.successes() == before, "a client without credentials has a role"


def test_certificates(stage: Stage) -> None:
    """3,200 certificates. None gives the role of the superuser, and those of other issuers give none."""
    ports = (stage.binary_port, stage.web_port)

    def present(chain: certificates.Chain, rng: random.Random) -> str:
        context = chain.context(stage.authority.trust, stage.directory)
        if context is None:
            return ""
        index = rng.randrange(2)
        asked = (
            connect("tls", b"")
            if index == 0
            else b"GET /admin/v2/tenants HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        outcome, answer = handshakes.shake(ports[index], context, asked)
        if index:
            assert not answer.startswith(b"HTTP/1.1 2"), (chain, answer)
        elif not chain.is_issued:
            assert not answer, (chain, answer)
        return f"{chain.kind}: {outcome}{', answered' if answer else ''}"

    def until_loaded(
        make: Callable[[certificates.Signer, random.Random], certificates.Chain],
    ) -> Callable[[random.Random], str]:
        def attack(rng: random.Random) -> str:
            while not (outcome := present(make(stage.clients, rng), rng)):
                pass
            return outcome

        return attack

    def refused(rng: random.Random) -> str:
        chain = rng.choice(list(certificates.unissued(stage.clients)))
        return present(chain, rng) or f"{chain.kind}: not loaded"

    before = stage.successes()
    stage.repeat(600, refused, "issuers")
    stage.repeat(1_200, until_loaded(certificates.damaged), "damaged certificates")
    assert stage.successes() == before, "a certificate of nobody has a role"
    stage.repeat(600, until_loaded(certificates.strange), "subjects")
    stage.repeat(800, until_loaded(certificates.damaged_and_signed), "signed certificates")


def test_the_broker_is_well_afterwards(stage: Stage) -> None:
    stage.witness.goes_on()
    resident = [*stage.resident, stage.broker.resident_bytes()]
    before, peak, after = resident[min(10, len(resident) - 1)], max(resident), resident[-1]
    for kind, count in sorted(stage.counts.items()):
        print(f"{count:7,}  {kind}")  # noqa: T201 - shown by -rP
    print(f"{stage.counts.total():7,}  mutations")  # noqa: T201 - shown by -rP
    print(f"memory in MiB: {before // MEBIBYTE} before, {peak // MEBIBYTE} at most, {after // MEBIBYTE} after")  # noqa: T201 - shown by -rP
    published, longest_s = stage.witness.published, stage.witness.longest_s
    print(f"{published} messages of the client with a right token, the longest {longest_s:.3f} s")  # noqa: T201
    log = stage.broker.process.log.read_text(errors="replace")
    assert [word for word in DEFECTS if word in log] == []
    assert peak - before < GROWTH_MAX
    assert stage.broker.rest.is_healthy()
