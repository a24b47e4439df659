"""The Java, Go and Python clients share schemas across two clusters, and across a planned switch."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.geo.helpers import wait_for_backlog, wait_for_entries
from tests.interop.conftest import wait_until_carried
from tests.interop.schema_clients import GoClient, JavaClient, PythonClient
from tests.kit.clusters import UP_TIMEOUT_S, LocalClusters
from tests.unit.schema.definitions import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.schema_clients import Answer, SchemaClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(4 * UP_TIMEOUT_S)]

NAMES = ("ewr", "jfk")
LANGUAGES = ("java", "go", "python")
NUMBER = {"name": "number", "type": "int"}
GATE = {"name": "gate", "type": "string", "default": "?"}
CODE = {"name": "code", "type": "string"}


def avro(*fields: dict[str, Any], kind: str = "AVRO") -> dict[str, str]:
    return {"type": kind, "definition": record(*fields).decode()}


FIRST, SECOND, CLASHING = avro(NUMBER), avro(NUMBER, GATE), avro(CODE)
BYTES, AUTO, PROTOBUF = {"type": "BYTES"}, {"type": "AUTO_CONSUME"}, {"type": "PROTOBUF_NATIVE"}


class World:
    """Two clusters with a pipeline, and a client of each language."""

    def __init__(self, clusters: LocalClusters, clients: dict[str, SchemaClient]) -> None:
        self.clusters = clusters
        self.clients = clients

    def ask(self, language: str, cluster: str, do: str, topic: str, **request: object) -> Answer:
        return self.clients[language].ask(do, self.clusters.members[cluster].service_url, topic, **request)

    def produce(self, language: str, cluster: str, topic: str, schema: Answer, *values: Answer, **more: object) -> None:
        answer = self.ask(language, cluster, "produce", topic, schema=schema, values=values, **more)
        assert "error" not in answer, answer

    def refusal(self, language: str, cluster: str, topic: str, schema: Answer, *values: Answer) -> str:
        return str(self.ask(language, cluster, "produce", topic, schema=schema, values=values)["error"])

    def consume(self, language: str, cluster: str, topic: str, schema: Answer, count: int, name: str = "") -> list[Any]:
        """Return values and schema versions."""
        subscription = name or secrets.token_hex(4)
        answer = self.ask(language, cluster, "consume", topic, schema=schema, count=count, subscription=subscription)
        assert "error" not in answer, answer
        return [(each["value"], each["version"]) for each in answer["messages"]]

    def topic(self) -> str:
        """Return a topic of a namespace that is replicated between the clusters."""
        namespace = f"schemas/{secrets.token_hex(4)}"
        self.clusters.make_namespace(namespace, NAMES)
        return f"persistent://{namespace}/t"

    def upload(self, cluster: str, topic: str, schema: Answer) -> None:
        payload = {"type": schema["type"], "schema": schema["definition"], "properties": {}}
        self.clusters.rest(cluster).post(f"{topic.replace('persistent://', 'schemas/')}/schema", payload)

    def definitions(self, cluster: str, topic: str) -> int:
        found = self.clusters.rest(cluster).get(f"{topic.replace('persistent://', 'schemas/')}/schemas")
        return len(found["getSchemaResponses"])


@pytest.fixture(scope="module")
def world(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two clusters, and the clients."""
    directory = tmp_path_factory.mktemp("schemas")
    with ExitStack() as stack:
        programs = {"go": GoClient(directory), "java": JavaClient(directory)}
        for each in programs.values():
            stack.enter_context(each)
        clusters = stack.enter_context(LocalClusters(directory, NAMES))
        clusters.start_pipeline()
        clusters.make_namespace("schemas/first", NAMES)
        wait_until_carried(clusters, "persistent://schemas/first/t")
        yield World(clusters, {**programs, "python": PythonClient()})


def reader(language: str) -> Answer:
    """Return the schema by which a client reads records of any version of the topic."""
    return AUTO if language == "java" else SECOND


def test_records_of_two_versions_from_each_client_are_read_by_each(world: World) -> None:
    topic = world.topic()
    world.upload("jfk", topic, SECOND)  # the versions differ between the clusters
    sent: list[Answer] = []
    for at, language in enumerate(LANGUAGES):
        world.produce(language, "ewr", topic, FIRST, {"number": 2 * at})
        world.produce(language, "ewr", topic, SECOND, {"number": 2 * at + 1, "gate": language})
        sent += [{"number": 2 * at}, {"number": 2 * at + 1, "gate": language}]
    wait_for_entries(world.clusters, topic, len(sent), NAMES)
    for cluster, first in (("ewr", 0), ("jfk", 1)):
        assert world.definitions(cluster, topic) == 2, "definitions that mean the same are one version"
        versions = [first if "gate" not in value else 1 - first for value in sent]
        completed = [{"gate": "?", **value} for value in sent]
        assert world.consume("java", cluster, topic, AUTO, len(sent)) == list(zip(sent, versions, strict=True))
        assert world.consume("java", cluster, topic, SECOND, len(sent)) == list(zip(completed, versions, strict=True))
        assert world.consume("go", cluster, topic, SECOND, len(sent)) == list(zip(sent, versions, strict=True))
        assert world.consume("python", cluster, topic, SECOND, len(sent)) == list(zip(completed, versions, strict=True))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_clash_is_refused_in_both_clusters(world: World, language: str) -> None:
    topic = world.topic()
    world.produce("java", "ewr", topic, FIRST, {"number": 1})
    wait_for_entries(world.clusters, topic, 1, NAMES)
    for cluster in NAMES:
        assert "ncompatible" in world.refusal(language, cluster, topic, CLASHING, {"code": "EWR"})
        answer = world.ask(
            language, cluster, "consume", topic, schema=CLASHING, count=1, subscription=secrets.token_hex(4)
        )
        assert "ncompatible" in answer["error"]
    wait_for_entries(world.clusters, topic, 1, NAMES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_producer_without_a_schema_is_refused_where_one_is_required(world: World, language: str) -> None:
    topic = world.topic()
    namespace = topic.removeprefix("persistent://").rpartition("/")[0]
    for cluster in NAMES:
        world.clusters.rest(cluster).post(f"namespaces/{namespace}/schemaValidationEnforced", True)
    world.produce("java", "ewr", topic, FIRST, {"number": 1})
    wait_for_entries(world.clusters, topic, 1, NAMES)
    for cluster in NAMES:
        assert "ncompatible" in world.refusal(language, cluster, topic, BYTES, {"text": "plain"})
        world.produce("java", cluster, topic, FIRST, {"number": 2}, auto=True)
    wait_for_entries(world.clusters, topic, 3, NAMES)
    assert world.consume("java", "jfk", topic, AUTO, 3)[0] == ({"number": 1}, 0)


@pytest.mark.parametrize("encoding", ["INLINE", "SEPARATED"])
@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_keys_and_values(world: World, encoding: str, kind: str) -> None:
    topic = world.topic()

    def pair(value: Answer) -> Answer:
        return {"type": "KEY_VALUE", "encoding": encoding, "key": avro(CODE, kind=kind), "value": value}

    first, second = pair(avro(NUMBER, kind=kind)), pair(avro(NUMBER, GATE, kind=kind))
    sent = [
        {"key": {"code": "EWR"}, "value": {"number": 1}},
        {"key": {"code": "JFK"}, "value": {"number": 2, "gate": "B7"}},
    ]
    world.produce("java", "ewr", topic, first, sent[0])
    world.produce("java", "ewr", topic, second, sent[1])
    wait_for_entries(world.clusters, topic, 2, NAMES)
    for cluster in NAMES:
        assert world.consume("java", cluster, topic, AUTO, 2) == [(sent[0], 0), (sent[1], 1)]
        clash = {"key": {"code": "EWR"}, "value": {"code": "EWR"}}
        assert "ncompatible" in world.refusal("java", cluster, topic, pair(avro(CODE, kind=kind)), clash)


def test_protobuf_messages(world: World) -> None:
    """The schema has four files, which each client sends in its own order and form."""
    topic = world.topic()
    for language in LANGUAGES:
        world.produce(language, "ewr", topic, PROTOBUF, {"name": language})
    wait_for_entries(world.clusters, topic, len(LANGUAGES), NAMES)
    for cluster in NAMES:
        for language in LANGUAGES:
            schema = AUTO if language == "java" else PROTOBUF
            values = [value for value, _ in world.consume(language, cluster, topic, schema, len(LANGUAGES))]
            assert values == [{"name": each} for each in LANGUAGES]


@pytest.mark.parametrize(("before", "after"), [("java", "go"), ("go", "python"), ("python", "java")])
def test_a_planned_switch(world: World, before: str, after: str) -> None:
    topic, name = world.topic(), "worker"
    world.produce(before, "ewr", topic, FIRST, *({"number": number} for number in range(4)))
    world.produce(before, "ewr", topic, SECOND, *({"number": number, "gate": "A1"} for number in range(4, 8)))
    wait_for_entries(world.clusters, topic, 8, NAMES)
    taken = world.consume(before, "ewr", topic, reader(before), 6, name)
    wait_for_backlog(world.clusters, topic, name, 2, NAMES)
    world.produce(after, "jfk", topic, FIRST, {"number": 8})
    world.produce(
        after, "jfk", topic, avro(NUMBER, GATE, GATE | {"name": "belt"}), {"number": 9, "gate": "A1", "belt": "5"}
    )
    wait_for_entries(world.clusters, topic, 10, NAMES)
    taken += world.consume(after, "jfk", topic, reader(after), 4, name)
    assert [value["number"] for value, _ in taken] == list(range(10))
    assert [version for _, version in taken] == [0] * 4 + [1] * 4 + [0, 2]
    wait_for_backlog(world.clusters, topic, name, 0, NAMES)
    assert [version for _, version in world.consume("java", "ewr", topic, AUTO, 10)] == [0] * 4 + [1] * 4 + [0, 2]


@pytest.mark.parametrize("language", ["java", "go"])
def test_a_table_view(world: World, language: str) -> None:
    topic = world.topic()
    for text in ("old", "new"):
        world.produce("java", "ewr", topic, BYTES, {"text": text}, key="a")
    wait_for_entries(world.clusters, topic, 2, NAMES)
    for cluster in NAMES:
        assert world.ask(language, cluster, "view", topic)["view"] == {"a": "new"}


def test_a_client_with_transactions_is_refused(world: World) -> None:
    answer = world.ask("java", "ewr", "produce", world.topic(), schema=BYTES, values=[{"text": "x"}], transactions=True)
    assert "ransaction" in answer["error"]
