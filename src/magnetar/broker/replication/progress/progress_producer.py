"""The receiving end of a progress link."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

import structlog

from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.base.position import EARLIEST
from magnetar.broker.publish.interfaces import PublishedTopic
from magnetar.broker.publish.producer import answer_at, answer_failed, publish_rest
from magnetar.wire.entries import entry as wire_entry
from magnetar.wire.entries import markers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.broker.publish.interfaces import ProducerOptions, ProducerSession, SendHead
    from magnetar.wire.proto import pulsar_api_pb2 as pb

log = structlog.get_logger(__name__)


class Informed(Protocol):
    """The receiver of progress markers."""

    def receive(
        self,
        source: str,
        payload: bytes,
        done: Callable[[MagnetarError | None], None],
        refused: Callable[[MagnetarError], None],
    ) -> None:
        """Apply a progress marker of ``source``; raises RemoteProtocolError for one that cannot be read."""
        ...


class InformedTopic(PublishedTopic, Protocol):
    """The topic of the progress markers."""

    @property
    def progress(self) -> Informed:
        """The receiver of progress markers."""
        ...


class ProgressProducer:
    """The progress link of a peer: its SENDs are applied and never stored."""

    is_link: ClassVar = True

    def __init__(self, topic: InformedTopic, session: ProducerSession, options: ProducerOptions, source: str) -> None:
        """Create the producer of a progress link from cluster ``source``."""
        self.check: Callable[[bytes], pb.MessageMetadata | None] = wire_entry.check
        self.topic = topic
        self.session = session
        self.options = options
        self._source = source

    def publish(self, heads: Sequence[SendHead], entries: list[bytes]) -> None:
        """Apply markers; each gets a receipt when its effect is durable."""
        for head, entry in zip(heads, entries, strict=True):
            self._apply(head, entry)

    def publish_with_refusals(self, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> None:
        """Refuse invalid markers and apply the others."""
        publish_rest(self, heads, entries)

    def _apply(self, head: SendHead, entry: bytes) -> None:
        def done(error: MagnetarError | None) -> None:
            if error is None:
                answer_at(self, [head], EARLIEST)
            else:
                answer_failed(self, [head], error)

        def refused(error: MagnetarError) -> None:
            self.topic.environment.limit_hits.note(error)
            log.warning("progress_refused", topic=str(self.topic.name), source=self._source, error=str(error))
            answer_failed(self, [head], error)

        try:
            kind = markers.marker_type(wire_entry.parse_metadata(entry))
            if kind != markers.PROGRESS:
                message = f"a progress link carries markers of type {markers.PROGRESS}, not {kind}"
                raise RequestError(ServerError.NotAllowedError, message)
            self.topic.progress.receive(self._source, bytes(wire_entry.payload_of(entry)), done, refused)
        except MagnetarError as error:
            refused(error)
