"""One connection of a client: its questions, and their answers."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from magnetar import __version__
from magnetar.base.errors import RemoteProtocolError, RequestError, ServerError
from magnetar.base.limits import MAX_MESSAGE_SIZE
from magnetar.base.tasks import start_task
from magnetar.lookup.clusters import Caller
from magnetar.wire import commands
from magnetar.wire.connection import Connection, Role
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from magnetar.lookup.shared import Shared
    from magnetar.wire.frame import Frame

log = structlog.get_logger(__name__)

SERVER_VERSION: Final = f"Lookup service of Magnetar {__version__}"
"""It does not begin with Magnetar: peers would expect links and progress."""

_FEATURES: Final = pb.FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)

_FIELDS: Final = {field.number: field.name for field in pb.BaseCommand.DESCRIPTOR.fields if field.name != "type"}

_T = pb.BaseCommand


class LookupSession(asyncio.Protocol):
    """See the module. Frames written in one turn of the event loop are sent together at its end."""

    def __init__(self, shared: Shared, listener: str = "") -> None:
        """Create a session before its connection is made; lookups without a listener use ``listener``."""
        self._shared = shared
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._wire = Connection(Role.BROKER, keep_alive_interval_s=shared.keep_alive_s, now=self._loop.time())
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._caller = Caller()
        self._address = ""

    # -- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or close it beyond the limit."""
        self._transport = cast("asyncio.Transport", transport)
        self._address = str(transport.get_extra_info("peername"))
        self._caller = Caller(is_encrypted=transport.get_extra_info("sslcontext") is not None)
        if not self._shared.admit(self):
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give up the questions of the client."""
        del exc
        self._wire.closed()
        self._transport = None
        self._shared.forget(self)
        for task in tuple(self._tasks):
            task.cancel()

    def data_received(self, data: bytes) -> None:
        """Handle the frames that the bytes complete; a peer that violates the protocol is disconnected."""
        if self._transport is None:
            return
        try:
            frames = self._wire.receive_some(data, self._loop.time())
            for frame in frames:
                self._take(frame)
        except RemoteProtocolError as error:
            self._drop(error)
            return
        self._write(self._wire.take_output())
        if self._wire.decoder.has_more:
            self._loop.call_soon(self.data_received, b"")

    def pause_writing(self) -> None:
        """Stop reading while the client does not read its answers."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read on."""
        if self._transport is not None:
            self._transport.resume_reading()

    # -- for the server -----------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Send a keep-alive; disconnect a silent peer."""
        try:
            self._wire.on_tick(now)
        except RemoteProtocolError as error:
            self._drop(error)
        else:
            self._write(self._wire.take_output())

    def close(self) -> None:
        """Close after all written answers are sent."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    # -- commands -----------------------------------------------------------------------------------------------

    def _take(self, frame: Frame) -> None:
        command = frame.command
        handler = _HANDLERS.get(command.type)
        if handler is not None:
            handler(self, getattr(command, _FIELDS[command.type]))
        else:
            self._refuse_data(command)

    def _connect(self, body: pb.CommandConnect) -> None:
        self._caller = self._caller._replace(method=body.auth_method_name, data=body.auth_data)
        if self._caller.method == "none":
            self._caller = self._caller._replace(method="", data=b"")
        version = min(body.protocol_version, commands.PROTOCOL_VERSION)
        self._wire.connected()
        self._write(
            commands.connected(
                server_version=SERVER_VERSION,
                protocol_version=version,
                max_message_size=MAX_MESSAGE_SIZE,
                feature_flags=_FEATURES,
            )
        )

    def _authenticate(self, body: pb.CommandAuthResponse) -> None:
        """Take over renewed credentials, which brokers check."""
        response = body.response
        self._caller = self._caller._replace(method=response.auth_method_name, data=response.auth_data)

    def _lookup(self, body: pb.CommandLookupTopic) -> None:
        refuse = partial(commands.lookup_failed, request_id=body.request_id)
        if self._listener and not body.advertised_listener_name.strip():
            body.advertised_listener_name = self._listener
        try:
            known = self._shared.questions.known_owner(body, self._caller)
        except RequestError as error:
            self._refused("lookup", refuse, error)
            return
        if known is not None:
            self._shared.known.inc()
            self._write(
                commands.lookup_response(
                    request_id=body.request_id, broker_service_url=known.url, broker_service_url_tls=known.url_tls
                )
            )
            return

        async def answer() -> None:
            began = self._loop.time()
            owner = await self._shared.questions.owner(body, self._caller)
            self._shared.metrics.durations.observe(self._loop.time() - began)
            self._write(
                commands.lookup_response(
                    request_id=body.request_id, broker_service_url=owner.url, broker_service_url_tls=owner.url_tls
                )
            )

        self._start("lookup", answer(), refuse)

    def _partitions(self, body: pb.CommandPartitionedTopicMetadata) -> None:
        async def answer() -> None:
            count = await self._shared.questions.partitions(body, self._caller)
            self._write(commands.partitioned_metadata_response(request_id=body.request_id, partitions=count))

        self._start("partitions", answer(), partial(commands.partitioned_metadata_failed, request_id=body.request_id))

    def _schema(self, body: pb.CommandGetSchema) -> None:
        async def answer() -> None:
            found = await self._shared.questions.schema(body, self._caller)
            self._write(commands.encode_with_id(found, body.request_id))

        self._start("schema", answer(), partial(commands.get_schema_failed, request_id=body.request_id))

    def _topics(self, body: pb.CommandGetTopicsOfNamespace) -> None:
        async def answer() -> None:
            found = await self._shared.questions.topics(body, self._caller)
            self._write(commands.encode_with_id(found, body.request_id))

        self._start("topics", answer(), partial(commands.error, request_id=body.request_id))

    def _close_absent(self, body: pb.CommandCloseProducer | pb.CommandCloseConsumer) -> None:
        """Answer the end of a producer or consumer whose creation was refused."""
        self._write(commands.success(request_id=body.request_id))

    def _refuse_data(self, command: pb.BaseCommand) -> None:
        """Refuse what a broker does, such that the client looks the topic up again."""
        body, name = getattr(command, _FIELDS[command.type]), pb.BaseCommand.Type.Name(command.type)
        if "request_id" not in body.DESCRIPTOR.fields_by_name:
            message = f"{name} is for brokers, not for a lookup service"
            raise RemoteProtocolError(message)
        message = f"{name} is for the broker of the topic, not for a lookup service: look the topic up"
        refuse = partial(commands.error, request_id=body.request_id)
        self._refused("other", refuse, RequestError(ServerError.ServiceNotReady, message))

    # -- answers ------------------------------------------------------------------------------------------------

    def _start(self, request: str, work: Coroutine[Any, Any, None], refuse: Callable[..., bytes]) -> None:
        """Run ``work``, which answers, in the background; a refusal is answered with ``refuse``."""
        if len(self._tasks) >= self._shared.options.questions_of_connection_max:
            work.close()
            limit = self._shared.options.questions_of_connection_max
            message = f"{limit} requests of the connection wait for an answer (--questions-of-connection-max)"
            self._refused(request, refuse, RequestError(ServerError.TooManyRequests, message))
            return

        async def run() -> None:
            try:
                await work
            except RequestError as error:
                self._refused(request, refuse, error)
            else:
                self._shared.metrics.requests.labels(request, "answered").inc()

        task = start_task(self._loop, run(), f"{request} of {self._address}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refused(self, request: str, refuse: Callable[..., bytes], error: RequestError) -> None:
        self._shared.metrics.requests.labels(request, "refused").inc()
        self._write(refuse(code=error.code, message=str(error)))

    def _write(self, frame: bytes) -> None:
        if self._transport is not None and frame:
            if not self._unsent:
                self._loop.call_soon(self._flush)
            self._unsent.append(frame)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and unsent:
            self._transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))

    def _drop(self, error: RemoteProtocolError) -> None:
        log.warning("client_dropped", address=self._address, client=self._wire.peer_version, reason=str(error))
        self.close()


_HANDLERS: Final[dict[int, Callable[[LookupSession, Any], None]]] = {
    _T.CONNECT: LookupSession._connect,  # noqa: SLF001 - the table of the class
    _T.AUTH_RESPONSE: LookupSession._authenticate,  # noqa: SLF001
    _T.LOOKUP: LookupSession._lookup,  # noqa: SLF001
    _T.PARTITIONED_METADATA: LookupSession._partitions,  # noqa: SLF001
    _T.GET_SCHEMA: LookupSession._schema,  # noqa: SLF001
    _T.GET_TOPICS_OF_NAMESPACE: LookupSession._topics,  # noqa: SLF001
    _T.CLOSE_PRODUCER: LookupSession._close_absent,  # noqa: SLF001
    _T.CLOSE_CONSUMER: LookupSession._close_absent,  # noqa: SLF001
}
