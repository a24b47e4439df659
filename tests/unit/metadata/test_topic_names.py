"""The topic names of a namespace: equal to the store, without listing all of them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.real import SystemClock
from magnetar.metadata import topic_names
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.resources import Topics, managed_ledger_path
from tests.kit.stored import delete, put

if TYPE_CHECKING:
    import pytest

ONE, OTHER = NamespaceName("public", "one"), NamespaceName("public", "other")
LOCAL_NAMES = ["a", "b", "a-partition-0", "ä/ö", "a b"]
PATHS = [
    f"{managed_ledger_path(TopicName('persistent', 'public', namespace.namespace, name))}{below}"
    for namespace in (ONE, OTHER)
    for name in LOCAL_NAMES
    for below in ("", "/cursors/worker", "/origins/7")
]


class CountingStore(MemoryMetadataStore):
    """Counts listings of all names below a path."""

    listed = 0

    def children(self, path: str) -> list[str]:
        self.listed += path.count("/") == 4
        return super().children(path)


def store() -> CountingStore:
    return CountingStore(SystemClock())


@given(st.lists(st.tuples(st.sampled_from(["put", "delete", "look"]), st.sampled_from(PATHS)), max_size=40))
def test_the_names_are_those_that_the_store_has(steps: list[tuple[str, str]]) -> None:
    metadata = store()
    topics = Topics(metadata)
    for what, path in steps:
        if what == "put":
            put(metadata, path, b"")
        elif what == "delete" and metadata.get(path) is not None:
            delete(metadata, path)
        if what == "look":
            for namespace in (ONE, OTHER):
                fresh = Topics(metadata)
                assert topics.of_namespace(namespace) == fresh.of_namespace(namespace)
                assert topics.texts_of_namespace(namespace) == tuple(map(str, fresh.of_namespace(namespace)))


def test_a_namespace_is_read_once() -> None:
    metadata = store()
    topics = Topics(metadata)
    for number in range(100):
        path = managed_ledger_path(TopicName("persistent", "public", "one", f"{number:03d}"))
        put(metadata, path, b"")
        assert len(topics.of_namespace(ONE)) == number + 1
    assert metadata.listed == 1
    delete(metadata, path)
    assert len(topics.texts_of_namespace(ONE)) == 99


def test_the_returned_list_may_be_changed() -> None:
    metadata = store()
    topics = Topics(metadata)
    put(metadata, PATHS[0], b"")
    topics.of_namespace(ONE).clear()
    assert topics.texts_of_namespace(ONE) is topics.texts_of_namespace(ONE)
    assert len(topics.of_namespace(ONE)) == len(topics.texts_of_namespace(ONE)) == 1


def test_names_stay_in_memory_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_names, "NAMES_CACHED_MAX", 25)
    metadata = store()
    topics = Topics(metadata)
    namespaces = [NamespaceName("public", f"n{number}") for number in range(10)]
    for namespace in namespaces:
        for number in range(10):
            put(metadata, managed_ledger_path(TopicName("persistent", "public", namespace.namespace, str(number))), b"")
    for namespace in (*namespaces, namespaces[0]):
        assert len(topics.of_namespace(namespace)) == 10
        assert sum(len(each.names) for each in topics._names._listings.values()) <= 25
    assert metadata.listed == 11, "the first one was evicted"


def test_a_namespace_without_topics_takes_no_memory() -> None:
    topics = Topics(store())
    for number in range(100):
        assert topics.of_namespace(NamespaceName("nobody", str(number))) == []
    assert len(topics._names._listings) == 0
