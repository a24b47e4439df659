"""Requests that are made from the OpenAPI document: valid ones, invalid ones, and ones that destroy things.

No answer has the status 500 or one that the document lacks. Each body conforms to its schema.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import strategies
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from reference.pages import DIRECTORY
from tests.kit.broker import Broker
from tests.kit.messages import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pulsar
    from schemathesis import CheckContext, Response

Operation = APIOperation[Any, Any, Any, Any]
Sent = Case[Any]


def operations() -> list[Operation]:
    """Return the operations of the document, all of which must be valid."""
    found: list[Operation] = []
    for each in schemathesis.openapi.from_path(DIRECTORY / "openapi.json").get_all_operations():
        assert isinstance(each, Ok), each
        found.append(each.ok())
    return found


OPERATIONS = operations()
NOUNS = sorted({operation.tags[0] for operation in OPERATIONS if operation.tags})

EXAMPLES, MANY_EXAMPLES = 2, 60
TIMEOUT_S = 60
BROKEN = {500, 502, 503}

CLUSTER, TENANT = "standalone", "public"
TOPIC, PARTITIONED, SUBSCRIPTION = "plain", "parted", "sub"
PARTITIONS, MESSAGES = 2, 3
RECORD = '{"type": "record", "name": "R", "fields": [{"name": "f", "type": "int"}]}'

NAMES = {
    "allocator": "default",
    "bundle": "0x00000000_0x40000000",
    "cluster": CLUSTER,
    "domain": "rack",
    "edit": 1,
    "entry": 0,
    "group": "group",
    "key": "key",
    "message": 1,
    "name": "maxProducersPerTopic",
    "policy": "isolated",
    "resource": TENANT,
    "scope": TENANT,
    "subscription": SUBSCRIPTION,
    "tenant": TENANT,
    "timestamp": 0,
    "topic": TOPIC,
    "value": "0",
    "version": 0,
}
"""Values of parameters of paths that name something which exists."""


class Stage:
    """A broker, and things in it that requests may use and destroy."""

    def __init__(self, broker: Broker, client: pulsar.Client) -> None:
        """Make the first namespace."""
        self.broker = broker
        self._client = client
        self._session = requests.Session()
        self._numbers = count(1)
        broker.rest.post(f"clusters/{CLUSTER}/failureDomains/rack", {"brokers": ["127.0.0.1"]})
        policy: dict[str, Any] = {"namespaces": [".*"], "primary": [".*"], "secondary": []}
        policy["auto_failover_policy"] = {"policy_type": "min_available", "parameters": {}}
        broker.rest.post(f"clusters/{CLUSTER}/namespaceIsolationPolicies/isolated", policy)
        self.renew()

    def renew(self) -> None:
        """Make a new namespace, since a request may have changed the other."""
        rest, self.namespace = self.broker.rest, f"n{next(self._numbers)}"
        rest.ensure(f"clusters/{CLUSTER}", {"serviceUrl": self.broker.admin_url})
        rest.ensure(f"tenants/{TENANT}", {"allowedClusters": [CLUSTER]})
        rest.put(f"magnetar/routes/{TENANT}", {"cluster": CLUSTER})
        namespace, topics = f"namespaces/{TENANT}/{self.namespace}", f"persistent/{TENANT}/{self.namespace}"
        rest.put(namespace, {})
        rest.put(f"{namespace}/properties", {"key": "value"})
        for domain in ("", "non-"):
            rest.put(f"{domain}{topics}/{PARTITIONED}/partitions", PARTITIONS)
            rest.put(f"{domain}{topics}/{TOPIC}", {})
        for topic in (TOPIC, PARTITIONED):
            rest.put(f"{topics}/{topic}/subscription/{SUBSCRIPTION}", "earliest")
        rest.post(f"schemas/{TENANT}/{self.namespace}/{TOPIC}/schema", {"type": "AVRO", "schema": RECORD})
        producer = self._client.create_producer(f"persistent://{TENANT}/{self.namespace}/{TOPIC}")
        for _ in range(MESSAGES):
            producer.send(b"\x00")
        producer.close()

    def renew_if_destroyed(self) -> None:
        """Make a new namespace if a topic or a subscription is missing."""
        topics = f"persistent/{TENANT}/{self.namespace}"
        for topic in (TOPIC, PARTITIONED):
            subscriptions = self.broker.rest.request("GET", f"{topics}/{topic}/subscriptions")
            volatile = self.broker.rest.request("GET", f"non-{topics}/{topic}/partitions")
            if subscriptions.is_error or SUBSCRIPTION not in subscriptions.json() or volatile.is_error:
                self.renew()
                return

    def names(self, operation: Operation, topic: str = "") -> dict[str, Any]:
        """Return the values of the parameters of a path that name existing things."""
        known = {**NAMES, "namespace": self.namespace, "broker": self.broker.admin_url.partition("://")[2]}
        if "partitioned-" in operation.path:
            known["topic"] = PARTITIONED
        if "/ledger/" in operation.path:
            known["ledger"] = self._ledger()
        known["topic"] = topic or known["topic"]
        return {name: value for name, value in known.items() if f"{{{name}}}" in operation.path}

    def send(self, case: Sent) -> int:
        """Send a request, compare its answer with the document, and return the status."""
        response = case.call(
            base_url=self.broker.admin_url, session=self._session, allow_redirects=False, timeout=TIMEOUT_S
        )
        case.validate_response(response, checks=CHECKS)
        return int(response.status_code)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _ledger(self) -> int:
        ledgers = self.broker.rest.get(f"persistent/{TENANT}/{self.namespace}/{TOPIC}/internal-info")["ledgers"]
        ledger: int = ledgers[0]["ledgerId"]
        return ledger


def is_not_broken(_: CheckContext, response: Response, __: Sent) -> None:
    """Fail if the broker failed; 501 is a refusal."""
    assert response.status_code not in BROKEN, response.text


CHECKS: list[Any] = [is_not_broken, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    settings = {"metadataSyncEventTopic": "persistent://pulsar/metadata/events"}  # else its routes only refuse
    with Broker(tmp_path_factory.mktemp("openapi"), CLUSTER, settings) as broker:
        client = connect(broker.service_url)
        made = Stage(broker, client)
        yield made
        made.close()
        client.close()


def is_refused(operation: Operation) -> bool:
    """Return whether the document has only one answer, a refusal."""
    return list(operation.responses.status_codes) == ["501"]


def of_noun(noun: str) -> list[Operation]:
    return [each for each in OPERATIONS if each.tags == [noun]]


@pytest.mark.parametrize("noun", NOUNS)
def test_each_value_conforms_to_the_document(stage: Stage, noun: str) -> None:
    stage.renew()
    for operation in of_noun(noun):
        if operation.method == "get" and any(int(status) < 400 for status in operation.responses.status_codes):
            status = stage.send(operation.Case(path_parameters=stage.names(operation)))
            assert status < 400, operation.label


@pytest.mark.parametrize("examples", [EXAMPLES, pytest.param(MANY_EXAMPLES, marks=pytest.mark.long)])
@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.timeout(1800)
def test_no_request_gets_an_undocumented_answer(stage: Stage, noun: str, examples: int) -> None:
    stage.renew()
    for operation in of_noun(noun):
        if is_refused(operation):
            names = dict.fromkeys(re.findall(r"{(\w+)}", operation.path), "1")
            stage.send(operation.Case(path_parameters=names))
        else:
            send_requests(stage, operation, examples)


def send_requests(stage: Stage, operation: Operation, examples: int) -> None:
    """Send ``examples`` requests of an operation, for things that exist and for others."""
    others = [
        each
        for each in OPERATIONS
        if each.path == operation.path and each.method in {"get", "delete"} and each.method != operation.method
    ]

    def send(case: Sent, topic: str | None) -> None:
        if topic is not None:
            case.path_parameters.update(stage.names(operation, topic))
        if stage.send(case) >= 300 or operation.method == "get":
            return
        for other in others:  # the value is shown, and removed
            stage.send(other.Case(path_parameters=case.path_parameters))
        stage.renew_if_destroyed()

    cases = [operation.as_strategy()]
    if operation.body or operation.query:
        cases.append(operation.as_strategy(GenerationMode.NEGATIVE))
    topics = ["", PARTITIONED, f"{PARTITIONED}-partition-0", None]
    settings = hypothesis.settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    settings(hypothesis.given(strategies.one_of(cases), strategies.sampled_from(topics))(send))()
