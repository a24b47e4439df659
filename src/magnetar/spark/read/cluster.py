"""The cluster, as the driver plans a read: topics, partitions, ledgers and positions by time."""

from __future__ import annotations

import re
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote_plus

from magnetar.base.errors import AdminError, ConfigurationError, InvalidTopicNameError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import Position
from magnetar.schema.info import SchemaInfo, SchemaType
from magnetar.schema.key_value import from_text
from magnetar.spark.connecting import admin_client
from magnetar.spark.read.ranges import Ledger, Log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.spark.read.options import ReadOptions

    Json = dict[str, Any]

_PATTERN = re.compile(r"(persistent://)?(?P<tenant>[^/]+)/(?P<namespace>[^/]+)/(?P<expression>.+)")


class Cluster:
    """Questions to the admin API. Every method raises as AdminClient."""

    def __init__(self, options: ReadOptions) -> None:
        """Create a client of the admin URL; nothing is sent yet."""
        self._options = options
        self._admin = admin_client(options)

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._admin.close()

    def topics(self) -> list[str]:
        """Return the topics that the options name, and partitions instead of partitioned topics, sorted.

        Raises ConfigurationError for an invalid name or pattern.
        """
        names = self._matching() if self._options.topics_pattern else self._named()
        return sorted({str(part) for name in names for part in self._partitions(name)})

    def logs(self, topics: Iterable[str]) -> dict[str, Log]:
        """Return the ledgers of topics, and the position of the predefined subscription."""
        subscription = self._options.predefined_subscription
        stats = {topic: self._admin.topics.internal_stats(TopicName.parse(topic)) for topic in topics}
        return {topic: Log(ledgers_in(one), mark_delete_in(one, subscription)) for topic, one in stats.items()}

    def schemas(self) -> dict[str, SchemaInfo]:
        """Return the current schemas of the topics, by name without the partition; raises as ``topics``."""
        names = dict.fromkeys(str(TopicName.parse(topic).partitioned_topic) for topic in self.topics())
        return {name: self.schema(name) for name in names}

    def schema(self, topic: str, version: int | None = None) -> SchemaInfo:
        """Return the current schema of a topic, of type NONE if it has none, or a version of the schema."""
        name, schemas = TopicName.parse(topic).partitioned_topic, self._admin.schemas
        try:
            found = schemas.latest(name) if version is None else schemas.version(name, version)
        except AdminError as error:
            if version is None and error.status is HTTPStatus.NOT_FOUND:
                return SchemaInfo(SchemaType.NONE)
            raise
        return _schema_in(found)

    def position_at(self, topic: str, time_ms: int) -> Position:
        """Return the position of the first entry in the log that was published at ``time_ms`` or later.

        Without such an entry, it is the position after the last entry.
        """
        name = TopicName.parse(topic)
        found = self._admin.topics.message_id_by_time(name, time_ms)
        position = Position(found["ledgerId"], found["entryId"])
        last = Position.parse(self._admin.topics.internal_stats(name)["lastConfirmedEntry"])
        if position.entry_id < 0 or position > last:  # the topic is empty, or has no such entry
            return position
        # Magnetar, and some versions of Apache Pulsar, answer with the last entry if there is no such entry.
        published = self._admin.topics.read_entry(name, position).publish_time
        is_last = published is not None and datetime.fromisoformat(published).timestamp() * 1000 < time_ms
        return Position(position.ledger_id, position.entry_id + is_last)

    def _named(self) -> list[TopicName]:
        texts = self._options.topic or self._options.topics
        names = [text.strip() for text in texts.split(",")]
        try:
            return [TopicName.parse(name) for name in names]
        except InvalidTopicNameError as error:
            raise ConfigurationError(str(error)) from None

    def _matching(self) -> list[TopicName]:
        """Return the topics that match the pattern as a whole; partitioned topics match without their partitions."""
        pattern = self._options.topics_pattern
        form = _PATTERN.fullmatch(pattern)
        if form is None:
            message = f"option topicsPattern: {pattern!r} is not of the form persistent://tenant/namespace/expression"
            raise ConfigurationError(message)
        try:
            local = re.compile(form["expression"])
        except re.error as error:
            message = f"option topicsPattern: {pattern!r}: {error}"
            raise ConfigurationError(message) from None
        namespace = NamespaceName(form["tenant"], form["namespace"])
        names = {name.partitioned_topic for name in self._admin.topics.of_namespace(namespace)}
        return [name for name in names if local.fullmatch(name.local_name)]

    def _partitions(self, name: TopicName) -> list[TopicName]:
        count = 0 if name.partition_index >= 0 else self._admin.topics.partitions(name)
        return name.parts(count)


def _schema_in(answer: Json) -> SchemaInfo:
    kind, text = SchemaType[answer["type"]], answer["data"]
    data = from_text(text) if kind is SchemaType.KEY_VALUE else text.encode()
    return SchemaInfo(kind, data, answer["properties"])


def ledgers_in(stats: Json) -> list[Ledger]:
    """Return the ledgers of a topic in order, with the entries that are stored now; the last one may be empty."""
    last = Position.parse(stats["lastConfirmedEntry"])
    ledgers = [Ledger(one["ledgerId"], one["entries"], one["size"]) for one in stats["ledgers"]]
    if ledgers and ledgers[-1].ledger_id == last.ledger_id:
        # The list states the entries of closed ledgers only.
        ledgers[-1] = Ledger(last.ledger_id, last.entry_id + 1, stats["currentLedgerSize"])
    return ledgers


def mark_delete_in(stats: Json, subscription: str) -> Position | None:
    """Return the mark-delete position of a subscription; None if the topic does not have it."""
    cursor = cursor_in(stats, subscription)
    return Position.parse(cursor["markDeletePosition"]) if cursor else None


def cursor_in(stats: Json, subscription: str) -> Json | None:
    """Return the cursor of a subscription; None if the topic does not have it."""
    cursors: dict[str, Json] = stats["cursors"]
    return cursors.get(subscription) or cursors.get(quote_plus(subscription))  # Apache Pulsar encodes names
