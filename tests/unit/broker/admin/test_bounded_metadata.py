"""Metadata that clients store through the admin API are bounded by size and by memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import AdminError
from magnetar.base.limits import DOCUMENT_BYTES_MAX, DOCUMENT_VALUES_MAX, Limit
from magnetar.base.names import NamespaceName
from magnetar.base.real import SystemClock
from magnetar.broker.admin.bounded_metadata import BoundedMetadataStore
from magnetar.broker.resources.objects import ObjectMemory
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.policies import Policies
from magnetar.metadata.resources import Resources
from magnetar.metadata.store import Put

if TYPE_CHECKING:
    from collections.abc import Callable

ORDERS = NamespaceName("acme", "orders")
BILLS = NamespaceName("acme", "bills")


class Admission:
    """A store of a broker that may use 900 bytes of memory."""

    def __init__(self) -> None:
        self.used = 0
        self.inner = MemoryMetadataStore(SystemClock())
        memory = ObjectMemory(1_000, self, lambda: self.used, lambda: 1)
        self.namespaces = Resources.over(BoundedMetadataStore(self.inner, memory)).namespaces
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        self._now += 1.0
        return self._now

    def boot(self) -> str:
        return ""

    def create(self, name: NamespaceName) -> None:
        self.namespaces.create(name, Policies())

    def set_properties(self, properties: dict[str, str]) -> None:
        self.namespaces.update(ORDERS, lambda old: old.model_copy(update={"properties": properties}))


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"a": "x" * DOCUMENT_BYTES_MAX}, f"bytes, at most {DOCUMENT_BYTES_MAX}"),
        ({str(n): "" for n in range(DOCUMENT_VALUES_MAX)}, f"more than {DOCUMENT_VALUES_MAX} keys and values"),
    ],
)
def test_a_document_that_is_too_large_is_refused(properties: dict[str, str], words: str) -> None:
    admission = Admission()
    admission.create(ORDERS)
    with pytest.raises(AdminError, match="policies/acme/orders would have") as refused:
        admission.set_properties(properties)
    assert words in str(refused.value)
    assert (refused.value.status, refused.value.limit) == (413, Limit.DOCUMENT_SIZE)
    found = admission.namespaces.get(ORDERS)
    assert found is not None
    assert found.properties == {}


def test_a_text_with_many_commas_is_one_value() -> None:
    admission = Admission()
    admission.create(ORDERS)
    admission.set_properties({"a": "," * 2 * DOCUMENT_VALUES_MAX})


def test_a_document_that_was_too_large_before_can_become_smaller() -> None:
    admission = Admission()
    whole = Policies(properties={"a": "x" * DOCUMENT_BYTES_MAX, "b": "y" * DOCUMENT_BYTES_MAX})
    admission.inner.commit([Put("/admin/policies/acme/orders", whole.to_bytes())])
    admission.set_properties({"a": "x" * DOCUMENT_BYTES_MAX})
    with pytest.raises(AdminError):
        admission.set_properties({"a": "x" * DOCUMENT_BYTES_MAX, "b": "y"})


@pytest.mark.parametrize(
    "attempt",
    [lambda admission: admission.create(BILLS), lambda admission: admission.set_properties({"a": "x" * 20_000})],
    ids=["a new document", "a large document"],
)
def test_without_memory_only_small_changes_are_made(attempt: Callable[[Admission], None]) -> None:
    admission = Admission()
    admission.create(ORDERS)
    admission.used = 950
    with pytest.raises(AdminError, match="memoryLimitMB") as refused:
        attempt(admission)
    assert (refused.value.status, refused.value.limit) == (503, Limit.MEMORY)
    admission.set_properties({"a": "b"})
    admission.used = 100
    attempt(admission)
