"""Admission of metadata that clients store through the admin API, by size and by the memory of the process."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.exchange import has_more_values
from magnetar.base.errors import AdminError, RequestError
from magnetar.base.limits import DOCUMENT_BYTES_MAX, DOCUMENT_VALUES_MAX, Limit
from magnetar.metadata.forwarding import ForwardingMetadataStore
from magnetar.metadata.store import Put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.broker.resources.objects import ObjectMemory
    from magnetar.metadata.store import Delete, MetadataStore, OnDurable

SMALL_BYTES = 16_384
"""Size up to which a document may always grow, so that an operator can change policies while the memory is used up."""


class BoundedMetadataStore(ForwardingMetadataStore):
    """See MetadataStore. All documents are in memory, and each use of a document reads all of it."""

    def __init__(self, inner: MetadataStore, memory: ObjectMemory) -> None:
        """Admit documents to ``inner`` while there is ``memory``."""
        super().__init__(inner)
        self._memory = memory

    def commit(self, operations: Sequence[Put | Delete], on_durable: OnDurable | None = None) -> list[int]:
        """See MetadataStore. Refuses documents that are too large with 413.

        If the memory is used up, it refuses new and larger documents with 503. Documents that were stored before can
        be replaced by smaller ones in any case.
        """
        for each in operations:
            if isinstance(each, Put):
                stored = self._inner.get(each.path)
                self._check(each, None if stored is None else stored.value)
        return self._inner.commit(operations, on_durable)

    def _check(self, put: Put, stored: bytes | None) -> None:
        if stored is not None and len(put.value) <= max(SMALL_BYTES, len(stored)):
            return
        _check_size(put)
        try:
            self._memory.check()
        except RequestError as error:
            raise AdminError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), error.limit) from None


def _check_size(put: Put) -> None:
    size, name = len(put.value), put.path.removeprefix("/admin/")
    if size > DOCUMENT_BYTES_MAX:
        what = f"{size} bytes, at most {DOCUMENT_BYTES_MAX}"
    elif has_more_values(put.value, DOCUMENT_VALUES_MAX):
        what = f"more than {DOCUMENT_VALUES_MAX} keys and values"
    else:
        return
    limit = Limit.DOCUMENT_SIZE
    raise AdminError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{name} would have {what} ({limit})", limit)
