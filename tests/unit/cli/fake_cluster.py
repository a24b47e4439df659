"""A fake cluster for commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.admin.fake_service import FakeAdminService, FakeSubscription, FakeTopic, new_service

Run = Callable[[str], Any]
"""Runs a command with JSON output, and returns its output."""

TOPIC = "persistent://nyc/flights/obs"
OBS = TopicName.parse(TOPIC)


def new_cluster() -> FakeAdminService:
    """Return a cluster with one topic, which has ten entries and a subscription."""
    found = new_service()
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1024)
    entries = [build_entry(metadata, b"x%d" % index) for index in range(10)]
    found.topics.held[OBS] = FakeTopic(entries, {"sub": FakeSubscription(Position(3, -1))})
    return found
