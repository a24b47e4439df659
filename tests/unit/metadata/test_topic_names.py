"""The topic names of a namespace: equal to the store, without listing all of them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.real import SystemClock
from magnetar.broker.loop.slices import at_once
from magnetar.metadata import topic_names
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.resources import Topics, managed_ledger_path
from tests.kit import stored

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from magnetar.metadata.topic_names import Names

ONE, OTHER = NamespaceName("public", "one"), NamespaceName("public", "other")
LOCAL_NAMES = ["a", "b", "a-partition-0", "ä/ö", "a b"]


def name_of(local_name: str, namespace: NamespaceName = ONE) -> TopicName:
    return TopicName("persistent", namespace.tenant, namespace.namespace, local_name)


NAMES = [name_of(local_name, namespace) for namespace in (ONE, OTHER) for local_name in LOCAL_NAMES]
PATHS = {
    f"{managed_ledger_path(name)}{below}": name for name in NAMES for below in ("", "/cursors/worker", "/origins/7")
}
CHANGES = st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from([*PATHS]))


class CountingStore(MemoryMetadataStore):
    """Counts listings of all names below a path."""

    listed = 0

    def each_child(self, path: str) -> Iterator[str]:
        self.listed += path.count("/") == 4
        return super().each_child(path)


@pytest.fixture
def metadata() -> CountingStore:
    return CountingStore(SystemClock())


def put(metadata: MemoryMetadataStore, *local_names: str, namespace: NamespaceName = ONE) -> None:
    for local_name in local_names:
        stored.put(metadata, managed_ledger_path(name_of(local_name, namespace)), b"")


def remove(metadata: MemoryMetadataStore, local_name: str) -> None:
    stored.delete(metadata, managed_ledger_path(name_of(local_name)))


def names(topics: Topics, namespace: NamespaceName = ONE) -> Names:
    return at_once(topics.reading_names(namespace))


def there(metadata: MemoryMetadataStore, namespace: NamespaceName) -> set[TopicName]:
    """Return the topics that have something stored."""
    return {name for path, name in PATHS.items() if name.namespace_name == namespace and metadata.get(path) is not None}


def change(metadata: MemoryMetadataStore, what: str, path: str) -> None:
    if what == "put":
        stored.put(metadata, path, b"")
    elif metadata.get(path) is not None:
        stored.delete(metadata, path)


@given(st.lists(CHANGES | st.sampled_from(["read", "step"]), max_size=60))
def test_the_names_are_those_that_the_store_has_when_the_last_step_is_done(steps: list[tuple[str, str] | str]) -> None:
    metadata = CountingStore(SystemClock())
    topics = Topics(metadata)
    readings: list[tuple[NamespaceName, Generator[None, None, Names]]] = []

    def step() -> None:
        namespace, reading = readings.pop(0)
        try:
            next(reading)
        except StopIteration as end:
            found = end.value.texts
        else:
            readings.append((namespace, reading))
            return
        assert found == tuple(sorted(map(str, there(metadata, namespace))))

    for each in steps:
        if each == "read":
            readings += [(namespace, topics.reading_names(namespace)) for namespace in (ONE, OTHER)]
        elif each != "step":
            change(metadata, *each)
        elif readings:
            step()
    while readings:
        step()


@given(st.lists(CHANGES, max_size=20), st.lists(CHANGES | st.none(), max_size=40))
def test_topics_that_stay_are_yielded_while_others_come_and_go(
    before: list[tuple[str, str]], meanwhile: list[tuple[str, str] | None]
) -> None:
    metadata = CountingStore(SystemClock())
    topics = Topics(metadata)
    for each in before:
        change(metadata, *each)
    iterator, yielded = topics.of_namespace(ONE), list[TopicName]()
    stayed, were_there = there(metadata, ONE), there(metadata, ONE)
    for step in meanwhile:
        if step is None:
            yielded += [name for name in [next(iterator, None)] if name is not None]
        else:
            change(metadata, *step)
            stayed &= there(metadata, ONE)
            were_there |= there(metadata, ONE)
    yielded += iterator
    assert len(yielded) == len(set(yielded))
    assert stayed <= set(yielded) <= were_there


def test_a_namespace_is_read_once_and_in_steps(metadata: CountingStore) -> None:
    topics = Topics(metadata)
    put(metadata, *map(str, range(100)))
    assert topics.names_in_memory(ONE) is None
    assert sum(1 for _ in topics.reading_names(ONE)) == 100
    for number in range(100, 200):
        put(metadata, str(number))
        assert sum(1 for _ in topics.reading_names(ONE)) == 0
        assert len(names(topics).texts) == number + 1
    remove(metadata, "150")
    assert len(names(topics).texts) == 199
    assert metadata.listed == 1


def test_names_are_the_same_object_until_a_topic_comes_or_goes(metadata: CountingStore) -> None:
    topics = Topics(metadata)
    put(metadata, "a")
    put(metadata, "a", namespace=OTHER)
    first, other = names(topics), names(topics, OTHER)
    assert first.version != other.version
    put(metadata, "a")
    stored.put(metadata, f"{managed_ledger_path(name_of('a'))}/cursors/worker", b"")
    assert names(topics) is topics.names_in_memory(ONE) is first
    put(metadata, "b")
    assert names(topics).version not in (first.version, other.version)
    assert first.texts == ("persistent://public/one/a",)
    assert names(topics, OTHER) is other


def test_names_stay_in_memory_up_to_a_limit(metadata: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_names, "NAMES_CACHED_MAX", 25)
    topics = Topics(metadata)
    namespaces = [NamespaceName("public", f"n{number}") for number in range(10)]

    def in_memory() -> list[NamespaceName]:
        return [namespace for namespace in namespaces if topics.names_in_memory(namespace) is not None]

    for namespace in namespaces:
        put(metadata, *map(str, range(10)), namespace=namespace)
        assert len(names(topics, namespace).texts) == 10
    assert in_memory() == namespaces[-2:]
    put(metadata, *map(str, range(10, 20)), namespace=namespaces[-1])
    assert in_memory() == namespaces[-1:], "the names that came are counted"
    put(metadata, *map(str, range(20, 30)), namespace=namespaces[-1])
    assert in_memory() == namespaces[-1:], "the names of one namespace may be more"
    assert len(names(topics, namespaces[0]).texts) == 10
    assert in_memory() == namespaces[:1]


def test_a_namespace_without_topics_takes_no_memory(metadata: CountingStore) -> None:
    topics = Topics(metadata)
    for number in range(100):
        namespace = NamespaceName("nobody", str(number))
        assert names(topics, namespace).texts == ()
        assert topics.names_in_memory(namespace) is None
