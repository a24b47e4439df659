"""Clients in three languages that produce and consume with schemas: one request and one answer at a time."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import pulsar
import pytest
from google.protobuf.api_pb2 import Api
from pulsar.schema import AvroSchema, ProtobufNativeSchema

from tests.kit.messages import RECEIVE_TIMEOUT_MS, connect
from tests.kit.pulsar_jars import java, pulsar_jars

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).with_name("clients")
BUILD_TIMEOUT_S = 900.0
"""Time limit in seconds for downloading and building the Go client on a busy machine."""

Answer = dict[str, Any]


class SchemaClient(Protocol):
    """A client of one language."""

    def ask(self, do: str, url: str, topic: str, **request: object) -> Answer:
        """Perform one request; the answer has the key ``error`` if the client has failed."""


class ProgramClient:
    """A program that reads requests from its standard input, and writes answers to its standard output."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """Start the program; its standard error goes to ``log``."""
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._log = log

    def __enter__(self) -> Self:
        """Return the object; the context manager ends the program."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """End the program, which does so at the end of its input."""
        self._process.communicate()

    def ask(self, do: str, url: str, topic: str, **request: object) -> Answer:
        """See SchemaClient."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, "url": url, "topic": topic, **request}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._log.read_text(errors="replace")
        answer: Answer = json.loads(line)
        return answer


class JavaClient(ProgramClient):
    """Apache Pulsar's Java client."""

    def __init__(self, directory: Path) -> None:
        """Start the program from its source, with the jars of Apache Pulsar."""
        command = [java(), "-cp", f"{pulsar_jars()}/*", str(SOURCES / "SchemaClient.java")]
        super().__init__(command, directory / "java.log")


class GoClient(ProgramClient):
    """Apache Pulsar's Go client."""

    def __init__(self, directory: Path) -> None:
        """Build and start the program; skip the test if there is no Go."""
        go = shutil.which("go")
        if go is None:
            pytest.skip("the Go client needs Go (Debian, Ubuntu: apt install golang)")
        program = directory / "schemas"
        subprocess.run([go, "build", "-o", program, "."], cwd=SOURCES / "go", check=True, timeout=BUILD_TIMEOUT_S)
        super().__init__([str(program)], directory / "go.log")


class PythonClient:
    """Apache Pulsar's Python client, in this process."""

    def ask(self, do: str, url: str, topic: str, **request: Any) -> Answer:  # noqa: ANN401 - parts of the request
        """See SchemaClient."""
        client = connect(url)
        try:
            if do == "produce":
                return self._produce(client, topic, **request)
            return self._consume(client, topic, **request)
        except pulsar.PulsarException as error:
            return {"error": str(error)}
        finally:
            client.close()

    def _produce(self, client: pulsar.Client, topic: str, *, schema: Answer, values: Sequence[Answer]) -> Answer:
        producer = client.create_producer(topic, schema=self._schema(schema))
        for value in values:
            if schema["type"] == "PROTOBUF_NATIVE":
                producer.send(Api(**value))
            else:
                producer.send(value if schema["type"] == "AVRO" else value["text"].encode())
        return {}

    def _consume(self, client: pulsar.Client, topic: str, *, subscription: str, schema: Answer, count: int) -> Answer:
        consumer = client.subscribe(
            topic,
            subscription,
            schema=self._schema(schema),
            initial_position=pulsar.InitialPosition.Earliest,
            replicate_subscription_state_enabled=True,
        )
        messages = []
        for _ in range(count):
            received = consumer.receive(RECEIVE_TIMEOUT_MS)
            value = received.value()
            shown = {"name": value.name} if isinstance(value, Api) else value
            version = int.from_bytes(received.schema_version().encode("latin-1")) if received.schema_version() else -1
            messages.append({"value": shown, "version": version})
            consumer.acknowledge(received)
        return {"messages": messages}

    def _schema(self, wanted: Answer) -> Any:  # noqa: ANN401 - the client is published without types
        if wanted["type"] == "PROTOBUF_NATIVE":
            return ProtobufNativeSchema(Api)
        if wanted["type"] == "AVRO":
            return AvroSchema(None, json.loads(wanted["definition"]))
        return pulsar.schema.BytesSchema()
