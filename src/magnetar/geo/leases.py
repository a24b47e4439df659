"""The rule by which one pipeline task takes links from another one (protocol: Links)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import LinkHeldError, RequestError, ServerError
from magnetar.wire.links import LEASE_METADATA, OLDER_PIPELINE, PIPELINE_METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping


class Lease(NamedTuple):
    """The lease of a task."""

    number: int
    pipeline: str | None
    """Identity of its pipeline; None for one of an older version."""

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> Lease:
        """Return the lease in the metadata of a consumer; raises RequestError if there is none."""
        try:
            return cls(int(metadata.get(LEASE_METADATA, "")), metadata.get(PIPELINE_METADATA))
        except ValueError:
            message = f"consumer metadata {LEASE_METADATA}={metadata.get(LEASE_METADATA)!r} is not a number"
            raise RequestError(ServerError.MetadataError, message) from None


def check_takeover(target: str, newcomer: Lease, holder: Lease) -> None:
    """Raise LinkHeldError if the holder of links to ``target`` has a newer lease than a new task.

    Also raised if the leases are equal and the tasks belong to different pipelines, which would otherwise take the
    links from each other endlessly. A newer lease gets the links in any case, so a hanging pipeline is replaced.
    """
    if newcomer.number <= holder.number and newcomer.pipeline != holder.pipeline:
        name = holder.pipeline or OLDER_PIPELINE
        message = f"another pipeline carries this link: {name}"
        raise LinkHeldError(message, name)
    if newcomer.number < holder.number:
        message = f"link to {target} is held by lease {holder.number}, which is newer than {newcomer.number}"
        raise LinkHeldError(message, None)
