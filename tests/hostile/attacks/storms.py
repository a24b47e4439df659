"""Questions about topics, as fast as they go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.hostile.catalogue import behaviour
from tests.hostile.tools import connect, frame, pump, pump_again

if TYPE_CHECKING:
    from tests.hostile.catalogue import Target

TOPICS = 9000
"""Topics of the namespace that is listed."""

LARGE_PATTERNS = (r"(\pL{30}){30}", "(.?){999}x", "(.*a.{500}){2}", "(.*.*){450}x", r"\pL" * 16)

EXPENSIVE_PATTERN = "(x+x+)+y|(a|aa)+$|" + "(.*)*" * 20


def _make_topics(target: Target, count: int = TOPICS) -> None:
    frames = (frame("LOOKUP", topic=target.topic(f"t{each}"), request_id=each) for each in range(count))
    creating = (
        frame("PRODUCER", topic=target.topic(f"t{each}"), producer_id=each, request_id=each) for each in range(count)
    )
    with connect(target) as connection:
        pump(target, connection, frames)
        pump(target, connection, creating)


@behaviour("GET_TOPICS_OF_NAMESPACE without end, of a namespace with 9,000 topics.", seconds=20.0)
def topic_lists(target: Target) -> int:
    _make_topics(target)
    data = frame("GET_TOPICS_OF_NAMESPACE", namespace=target.namespace, request_id=1)
    return pump_again(target, lambda: connect(target), data)


@behaviour("GET_TOPICS_OF_NAMESPACE whose answers are not read, 200 at once, with 3,000 topics.", seconds=12.0)
def topic_lists_unread(target: Target) -> int:
    _make_topics(target, 3000)
    data = frame("GET_TOPICS_OF_NAMESPACE", namespace=target.namespace, request_id=1) * 200
    return pump_again(target, lambda: connect(target), data, reads=False)


@behaviour("Topic lists with patterns that cost a naive matcher exponential time.", seconds=10.0)
def expensive_patterns(target: Target) -> int:
    _make_topics(target, 1000)
    patterns = (EXPENSIVE_PATTERN, "x" * 1_000_000, "(?:" * 5000, "[", f"persistent://{target.namespace}/t.*")
    data = b"".join(
        frame("GET_TOPICS_OF_NAMESPACE", namespace=target.namespace, topics_pattern=each, request_id=1)
        for each in patterns
    )
    return pump_again(target, lambda: connect(target), data)


@behaviour(
    "Patterns that are large once they are compiled, and ever other patterns, with names of 2,000 bytes.", seconds=10.0
)
def large_patterns(target: Target) -> int:
    with connect(target) as connection:
        names = (f"{each:02000d}" for each in range(200))
        creating = (
            frame("PRODUCER", topic=target.topic(name), producer_id=each, request_id=each)
            for each, name in enumerate(names)
        )
        pump(target, connection, creating)
    patterns = (*LARGE_PATTERNS, *(f"(.?){{30}}{each}" for each in range(200)))
    data = b"".join(
        frame("GET_TOPICS_OF_NAMESPACE", namespace=target.namespace, topics_pattern=each, request_id=1)
        for each in patterns
    )
    return pump_again(target, lambda: connect(target), data)


@behaviour("LOOKUPs of ever other topics.")
def lookups(target: Target) -> int:
    def frames() -> bytes:
        return b"".join(frame("LOOKUP", topic=target.topic(f"t{each}"), request_id=each) for each in range(2000))

    return pump_again(target, lambda: connect(target), frames())


@behaviour("PARTITIONED_METADATA of ever other topics, with and without their creation.", seconds=5.0)
def partitioned_metadata(target: Target) -> int:
    data = b"".join(
        frame(
            "PARTITIONED_METADATA",
            topic=target.topic(f"t{each}"),
            request_id=each,
            metadata_auto_creation_enabled=bool(each % 2),
        )
        for each in range(1000)
    )
    return pump_again(target, lambda: connect(target), data)


@behaviour("GET_SCHEMA, GET_OR_CREATE_SCHEMA and WATCH_TOPIC_LIST as fast as they go.")
def schemas(target: Target) -> int:
    data = frame("GET_SCHEMA", topic=target.topic(), request_id=1) + frame(
        "WATCH_TOPIC_LIST", request_id=2, watcher_id=1, namespace=target.namespace, topics_pattern=".*"
    )
    return pump_again(target, lambda: connect(target), data * 500)
