"""Rows as messages."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from magnetar.base.errors import ConfigurationError
from magnetar.spark.write.rows import EntryFields, Row, UnwritableRowError, check_columns, key_text, rows_of

TEXT, BYTES = StringType(), BinaryType()


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    ("columns", "topic", "reason"),
    [
        (schema(value=BYTES, __messageId=BYTES), "t", "column __messageId cannot be written"),
        (schema(value=IntegerType()), "t", "column value has the type int, not binary or string"),
        (schema(value=BYTES, __messageProperties=MapType(TEXT, IntegerType())), "t", "not map<string,string>"),
        (schema(__key=TEXT), "t", "there is no column value"),
        (schema(value=TEXT), "", "name the topic either"),
        (schema(value=TEXT, __topic=TEXT), "t", "name the topic either"),
    ],
)
def test_columns_that_are_no_messages_are_refused(columns: StructType, topic: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        check_columns(columns, topic)


def test_all_columns_of_a_message_are_accepted() -> None:
    columns = {
        "value": TEXT,
        "__key": BYTES,
        "__eventTime": TimestampType(),
        "__messageProperties": MapType(TEXT, TEXT),
    }
    check_columns(schema(**columns), "t")
    check_columns(schema(__topic=TEXT, **columns), "")


def test_rows_have_the_values_of_their_columns() -> None:
    time = datetime(2026, 1, 2, 3, 4, 5, 678_900, UTC)
    properties = pa.array([[("b", "2"), ("a", "1")], None], pa.map_(pa.string(), pa.string()))
    batch = pa.record_batch(
        {
            "value": pa.array(["x", None]),
            "__key": pa.array([b"\xff", None]),
            "__eventTime": pa.array([time, None], pa.timestamp("us", "UTC")),
            "__messageProperties": properties,
        }
    )
    millis = int(time.timestamp() * 1000)
    assert list(rows_of(batch)) == [
        Row(None, b"x", b"\xff", millis, [("b", "2"), ("a", "1")]),
        Row(None, None, None, 0, ()),
    ]


def test_keys_are_text_or_bytes_by_type_or_by_a_column() -> None:
    values, keys = pa.array([b"", b""]), pa.array([b"a", b"b"])
    assert [row.has_text_key for row in rows_of(pa.record_batch({"value": values, "__key": keys}))] == [False] * 2
    texts = pa.record_batch({"value": values, "__key": keys.cast(pa.string())})
    assert [row.has_text_key for row in rows_of(texts)] == [True] * 2
    stated = {"value": values, "__key": keys, "__hasBase64EncodedKey": pa.array([True, False])}
    assert [row.has_text_key for row in rows_of(pa.record_batch(stated))] == [False, True]


def test_rows_with_all_metadata_have_it() -> None:
    times = pa.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC"))
    published = times.fill_null(datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC))
    stated = {
        "value": pa.array([b"", b""]),
        "__publishTime": published,
        "__deliverAtTime": times,
        "__replicateTo": pa.array([["jfk"], None]),
        "__orderingKey": pa.array([b"o", None]),
        "__schemaVersion": pa.array([None, b"v"]),
    }
    found = list(rows_of(pa.record_batch(stated)))
    assert [row.entry_fields for row in found] == [
        EntryFields(1000, 1000, ("jfk",)),
        EntryFields(2000, schema_version=b"v"),
    ]
    assert [row.ordering_key for row in found] == [b"o", None]


def test_a_time_before_1970_is_refused() -> None:
    times = pa.array([datetime(1969, 12, 31, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    with pytest.raises(UnwritableRowError, match="before 1970"):
        list(rows_of(pa.record_batch({"value": pa.array([b""]), "__eventTime": times})))


def test_a_property_without_a_value_is_refused() -> None:
    properties = pa.array([[("a", None)]], pa.map_(pa.string(), pa.string()))
    with pytest.raises(UnwritableRowError, match="property whose value is null"):
        list(rows_of(pa.record_batch({"value": pa.array([b""]), "__messageProperties": properties})))


def test_a_key_that_is_not_text_is_refused_in_a_column_of_strings_only() -> None:
    assert key_text(b"\xff", is_text=False) == "/w=="
    with pytest.raises(UnwritableRowError, match="not UTF-8"):
        key_text(b"\xff", is_text=True)


def test_digests_differ_for_each_difference_of_two_messages() -> None:
    rows = [
        Row("t", b"v", b"k", 1, [("a", "b")]),
        Row("t", b"", b"k", 1, [("a", "b")]),
        Row("t", None, b"k", 1, [("a", "b")]),
        Row("t", b"v", None, 1, [("a", "b")]),
        Row("t", b"v", b"k", 0, [("a", "b")]),
        Row("t", b"v", b"k", 1, [("ab", "")]),
        Row("t", b"v", b"k", 1, ()),
        Row("t", b"vk", b"", 1, [("a", "b")]),
    ]
    assert len({row.digest() for row in rows}) == len(rows)


def test_the_order_of_properties_does_not_change_the_digest() -> None:
    pairs = [("a", "1"), ("b", "2")]
    assert Row(None, b"v", None, 0, pairs).digest() == Row("t", b"v", None, 0, pairs[::-1]).digest()
