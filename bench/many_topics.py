"""Many topics over one raw connection with pipelined requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.raw import RawConnection, Value, entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOPIC = "persistent://public/default/bench"
SUBSCRIPTION = "bench"
PIPELINED = 100
"""Number of requests in flight."""


class ManyTopics:
    """Topics with numbers as names, each with a producer and optionally a subscription with a consumer."""

    def __init__(self, service_url: str, prefix: str = TOPIC) -> None:
        """Connect without creating topics."""
        self._raw = RawConnection.connected(service_url)
        self._prefix = prefix
        self._sent = 0
        self.count = 0
        """Number of topics."""

    def __enter__(self) -> Self:
        """Return the object; the connection with all producers and consumers is closed at exit."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the connection."""
        self._raw.close()

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()

    def grow(self, count: int) -> None:
        """Create topics until there are ``count``, each with a lookup and a producer."""
        for numbers in _parts(range(self.count, count)):
            self._each(numbers, "LOOKUP", "LOOKUP_RESPONSE", self._lookup)
            self._each(numbers, "PRODUCER", "PRODUCER_SUCCESS", self._producer)
            self.count = numbers.stop

    def subscribe(self, first: int = 0) -> None:
        """Subscribe to each topic from number ``first``, with type Shared and the latest position."""
        for numbers in _parts(range(first, self.count)):
            self._each(numbers, "SUBSCRIBE", "SUCCESS", self._subscription)

    def publish(self, first: int = 0) -> None:
        """Publish a small entry to each topic from number ``first``; return after all receipts."""
        self._sent += 1
        for numbers in _parts(range(first, self.count)):
            for number in numbers:
                content = entry(b"%d" % number, self._sent)
                self._raw.send("SEND", content, producer_id=number, sequence_id=self._sent)
            for _ in numbers:
                self._raw.expect("SEND_RECEIPT")

    def _each(self, numbers: range, request: str, answer: str, fields: Callable[[int], dict[str, Value]]) -> None:
        for number in numbers:
            self._raw.send(request, topic=f"{self._prefix}-{number}", request_id=number, **fields(number))
        for _ in numbers:
            self._raw.expect(answer)

    @staticmethod
    def _lookup(_number: int) -> dict[str, Value]:
        return {"authoritative": False}

    @staticmethod
    def _producer(number: int) -> dict[str, Value]:
        return {"producer_id": number}

    @staticmethod
    def _subscription(number: int) -> dict[str, Value]:
        return {"subscription": SUBSCRIPTION, "consumer_id": number, "subType": pb.CommandSubscribe.Shared}


def _parts(numbers: range) -> Iterator[range]:
    for first in range(numbers.start, numbers.stop, PIPELINED):
        yield range(first, min(first + PIPELINED, numbers.stop))
