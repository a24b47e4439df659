"""Official clients notice nothing of a fence that is released: no error, no lost message, and no other order."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING

import pulsar

from magnetar.admin.client import AdminClient
from magnetar.base.names import TopicName
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker

FENCED_S = 0.3


def test_official_clients_go_on_after_a_fence(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    producer = client.create_producer(topic, send_timeout_millis=20_000)
    ended, sent, errors = Event(), list[bytes](), list[Exception]()

    def publish() -> None:
        number = 0
        try:
            while not ended.wait(0.005):
                data = b"%d" % number
                producer.send(data)
                sent.append(data)
                number += 1
        except Exception as error:  # noqa: BLE001 - the application's
            errors.append(error)

    publisher = Thread(target=publish)
    publisher.start()
    wait_until(lambda: len(sent) > 10)
    name = TopicName.parse(topic)
    with AdminClient(broker.admin_url) as admin:
        held = consumer.receive(5000)
        settling = admin.fences.set(name, "m", 1, "settling")
        in_progress = settling["subscriptions"]["s"]["unacknowledgedMessages"]
        consumer.acknowledge(held)
        wait_until(lambda: admin.fences.get(name)["subscriptions"]["s"]["unacknowledgedMessages"] == in_progress - 1)
        before = len(sent)
        closed = admin.fences.set(name, "m", 1, "closed", digests=True)
        ended.wait(FENCED_S)
        assert len(sent) <= before + 1
        assert admin.fences.get(name, digests=True)["subscriptions"] == closed["subscriptions"]
        admin.fences.remove(name, "m", 1)
    wait_until(lambda: len(sent) > before + 10 or errors)
    ended.set()
    publisher.join()
    assert errors == []
    received = [held.data()]
    while len(received) < len(sent):
        message = consumer.receive(5000)
        consumer.acknowledge(message)
        received.append(message.data())
    assert received == sent
    assert [reader.read_next(5000).data() for _ in sent] == sent
