"""The limits of one REST client: connections, headers and time."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from socket import SO_RCVBUF, SOL_SOCKET, create_connection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
from structlog.testing import capture_logs

from magnetar.base.limits import Limit
from magnetar.base.real import SystemFiles
from magnetar.broker.loop import turns
from magnetar.broker.loop.turns import LoopTurns
from magnetar.broker.resources.limit_hits import LimitHits
from magnetar.broker.resources.send_buffers import RECEIVE_STALL_S, SendBuffers
from magnetar.broker.web.answers import AnswerLimit, Answers
from magnetar.broker.web.connection import PART_BYTES, REQUEST_S, WebConnection, WebOptions
from magnetar.broker.web.listening import RECEIVE_BUFFER_BYTES, WebSockets
from magnetar.broker.web.patience import Phase
from magnetar.broker.web.server import WebServer
from magnetar.sim.virtual.loop import HandClock
from tests.kit.in_process import BrokerInProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

TIMEOUT_S = 30.0
GET = b"GET /answer HTTP/1.1\r\nHost: broker\r\n\r\n"
POST = b"POST /answer HTTP/1.1\r\nHost: broker\r\nContent-Length: 4\r\n\r\n"
HEADER_SIZE_MAX = 1000
ANSWERS_SIZE_MAX = 1_000_000
"""Maximum bytes of unread responses."""

ANSWER_SIZE = 400_000


class FakeSocket(asyncio.Transport):
    """A transport that stores the output; a client that does not read leaves all of it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 40_000), "sockname": ("10.0.0.2", 8080)})
        self.written = b""
        self.unread = 0
        self.reads = True
        self.closed = False
        self.is_read = True

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.written += data
        if not self.reads:
            self.unread += len(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignore the limits."""

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


async def large_answer(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Respond with ANSWER_SIZE bytes."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": bytes(ANSWER_SIZE)})


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the whole request, then respond."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


class Time:
    """A manual clock."""

    passed = 0.0

    def time(self) -> float:
        return self.passed


@dataclass
class Web:
    """A web server without a listening socket."""

    connections_max: int = 3
    hits: LimitHits = field(default_factory=LimitHits)

    def __post_init__(self) -> None:
        self.time = Time()
        self.clock = HandClock(self.time)
        options = WebOptions(self.connections_max, Limit.HTTP_CONNECTIONS, HEADER_SIZE_MAX, TIMEOUT_S)
        self.answers = SendBuffers(ANSWERS_SIZE_MAX, ANSWERS_SIZE_MAX)
        self.turns = LoopTurns(asyncio.get_running_loop(), self.clock)
        self.server = WebServer(application, options, self.hits, self.clock, self.answers, self.turns)
        self.server.config.load()

    def connect(self) -> tuple[WebConnection, FakeSocket]:
        connection, socket = WebConnection(self.server.config, self.server.server_state, {}), FakeSocket()
        connection.connection_made(socket)
        return connection, socket

    def look_after(self, seconds: float) -> None:
        self.time.passed += seconds
        self.server._state.check()

    def counts(self) -> dict[str, int]:
        return {name: count for name, count in self.hits.counts().items() if count}


def run(scenario: Callable[[Web], Any], connections_max: int = 3) -> Web:
    async def play() -> Web:
        web = Web(connections_max)
        await scenario(web)
        return web

    return asyncio.run(play())


async def settle() -> None:
    """Run the application until it is idle."""
    loop = asyncio.get_running_loop()
    for _ in range(10):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


def test_a_request_is_answered() -> None:
    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        for requests in (1, 2):
            connection.data_received(GET)
            await settle()
            assert socket.written.count(b"HTTP/1.1 204") == requests
        assert not socket.closed

    assert run(scenario).counts() == {}


def test_the_connection_that_waits_longest_makes_room() -> None:
    async def scenario(web: Web) -> None:
        (first, _), (_, second), (_, third) = (web.connect() for _ in range(3))
        first.data_received(GET)
        await settle()
        _, fourth = web.connect()
        assert second.closed
        assert [third.closed, fourth.closed] == [False, False]

    assert run(scenario).counts() == {Limit.HTTP_CONNECTIONS.value: 1}


def test_no_request_that_is_worked_on_is_given_up() -> None:
    async def scenario(web: Web) -> None:
        answering = [web.connect() for _ in range(3)]
        for connection, _ in answering:
            connection.data_received(GET)
            assert connection.phase is Phase.WORKING
        _, refused = web.connect()
        assert refused.closed
        assert refused.written.startswith(b"HTTP/1.1 503 ")
        assert refused.written.endswith(b'{"reason": "There are too many connections (maxHttpServerConnections)"}')
        await settle()
        assert [socket.written[:12] for _, socket in answering] == [b"HTTP/1.1 204"] * 3

    assert run(scenario).counts() == {Limit.HTTP_CONNECTIONS.value: 1}


@pytest.mark.parametrize("piece", [100, 100_000], ids=["in pieces", "at once"])
def test_headers_have_a_limit(piece: int) -> None:
    request = GET.replace(b"Host", b"X-Long: " + b"x" * HEADER_SIZE_MAX + b"\r\nHost")

    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        for start in range(0, len(request), piece):
            if not socket.closed:
                connection.data_received(request[start : start + piece])
        await settle()
        assert socket.written.startswith(b"HTTP/1.1 431 ")
        assert b"may have 1000 bytes (httpMaxRequestHeaderSize)" in socket.written

    assert run(scenario).counts() == {Limit.HTTP_HEADER_SIZE.value: 1}


def test_the_rest_of_a_head_that_is_too_large_is_not_read() -> None:
    """Reading 10,000 headers takes longer than other clients should wait."""

    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        connection.data_received(
            GET.replace(b"Host", b"".join(b"X: %d\r\n" % each for each in range(10_000)) + b"Host")
        )
        await settle()
        assert socket.written.startswith(b"HTTP/1.1 431 ")
        assert len(connection.conn.trailing_data[0]) <= HEADER_SIZE_MAX + PART_BYTES

    run(scenario)


def test_requests_that_come_together_are_read_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_ITEMS_MAX", 2)
    begun: list[int] = []

    async def scenario(web: Web) -> None:
        clients = [web.connect() for _ in range(10)]
        for connection, _ in clients:
            connection.data_received(POST)
            connection.data_received(b"ab")
            connection.data_received(b"cd" + GET)
        begun.append(sum(connection.cycle is not None for connection, _ in clients))
        assert clients[-1][1].is_read is False, "no more arrives before what came is read"
        assert clients[-1][0].phase is Phase.WORKING
        await settle()
        await settle()
        assert [socket.written.count(b"HTTP/1.1 204") for _, socket in clients] == [2] * len(clients)
        assert all(socket.is_read for _, socket in clients)

    run(scenario, connections_max=10)
    assert begun == [1]


def test_chunks_of_one_byte_are_read_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_ITEMS_MAX", 2)
    chunks = b"1\r\nx\r\n" * 10_000
    heads = POST.replace(b"Content-Length: 4", b"Transfer-Encoding: chunked")

    async def story(web: Web) -> None:
        connection, socket = web.connect()
        connection.data_received(heads)
        await settle()
        connection.data_received(chunks)
        assert len(chunks) - len(connection._arrived) < 200 * len(b"1\r\nx\r\n")
        connection.data_received(b"0\r\n\r\n")
        for _ in range(10):
            await settle()
        assert socket.written.startswith(b"HTTP/1.1 204")

    run(story)


def test_nothing_more_is_read_while_received_bytes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_ITEMS_MAX", 0)

    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        connection.data_received(POST)
        connection.flow.pause_reading()
        connection.flow.resume_reading()  # as the application does when it reads the body
        assert socket.is_read
        connection.data_received(b"ab")
        assert not socket.is_read

    run(scenario)


def test_a_request_whose_bytes_wait_is_answered_although_the_connection_was_idle_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        connection.data_received(GET)
        await settle()
        monkeypatch.setattr(turns, "TURN_ITEMS_MAX", 0)
        connection.data_received(GET)
        connection.timeout_keep_alive_handler()
        assert not socket.closed
        await settle()
        assert socket.written.count(b"HTTP/1.1 204") == 2
        connection.timeout_keep_alive_handler()
        assert socket.closed

    run(scenario)


def test_a_request_that_takes_long_is_answered_although_it_came_with_another_one() -> None:
    async def scenario(web: Web) -> None:
        answers = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] == "/slow":
                await answers.wait()
            await application(scope, receive, send)

        web.server.config.loaded_app = slow
        connection, socket = web.connect()
        connection.data_received(GET + GET.replace(b"/answer", b"/slow"))
        await settle()
        connection.timeout_keep_alive_handler()  # the timer runs since the first answer
        answers.set()
        await settle()
        assert socket.written.count(b"HTTP/1.1 204") == 2

    run(scenario)


def test_the_receive_buffer_of_a_connection_is_small() -> None:
    bound = WebSockets("127.0.0.1", 0)
    bound.sockets[0].listen()
    with create_connection(("127.0.0.1", bound.port)):
        accepted, _ = bound.sockets[0].accept()
        with accepted:
            assert accepted.getsockopt(SOL_SOCKET, SO_RCVBUF) <= 2 * RECEIVE_BUFFER_BYTES
    bound.close()


@pytest.mark.parametrize("requests", [1, 5], ids=["one each", "five each"])
def test_the_processing_time_of_requests_counts(requests: int) -> None:
    """Uvicorn and Starlette process all requests that begin in one turn of the loop."""
    begun: list[int] = [0]

    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        begun[-1] += 1
        await application(scope, receive, send)

    def turn_of_the_loop() -> None:
        begun.append(0)
        if len(begun) < 100 * requests:
            asyncio.get_running_loop().call_soon(turn_of_the_loop)

    async def scenario(web: Web) -> None:
        web.server.config.loaded_app = counting
        clients = [web.connect() for _ in range(30)]
        turn_of_the_loop()
        for connection, _ in clients:
            connection.data_received(GET * requests)
        while len(begun) < 100 * requests:
            await settle()
        assert [socket.written.count(b"HTTP/1.1 204") for _, socket in clients] == [requests] * len(clients)

    run(scenario, connections_max=30)
    assert sum(begun) == 30 * requests
    assert max(begun) <= turns.TURN_S / REQUEST_S + 1


def test_a_connection_that_is_lost_while_it_waits_for_its_turn_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_ITEMS_MAX", 0)

    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        connection.data_received(GET)
        socket.closed = True
        connection.connection_lost(None)
        await settle()
        assert socket.written == b""

    run(scenario)


@pytest.mark.parametrize(
    "pieces",
    [(), (GET[:1],), (GET[:-1],), (POST,), (POST + b"abc",), (GET, GET[:-1])],
    ids=["nothing", "one byte", "headers", "no body", "a part of the body", "a second request"],
)
def test_a_request_that_does_not_end_is_given_up(pieces: tuple[bytes, ...]) -> None:
    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        for piece in pieces:
            connection.data_received(piece)
            await settle()
        web.look_after(1)
        web.look_after(TIMEOUT_S - 1.1)
        assert not socket.closed
        web.look_after(1.1)
        assert socket.closed

    assert run(scenario).counts() == {Limit.HTTP_REQUEST_TIMEOUT.value: 1}


def test_bytes_now_and_then_are_no_progress() -> None:
    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        for byte in GET[: int(TIMEOUT_S)]:
            assert not socket.closed
            connection.data_received(bytes([byte]))
            await settle()
            web.look_after(1)
        assert socket.closed

    assert run(scenario).counts() == {Limit.HTTP_REQUEST_TIMEOUT.value: 1}


def test_an_answer_that_is_not_read_is_given_up() -> None:
    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        connection.data_received(GET)
        await settle()
        for unread in (3000, 2000, 1000):
            socket.unread = unread
            web.look_after(TIMEOUT_S - 1)
            assert not socket.closed
        web.look_after(TIMEOUT_S)
        assert socket.closed

    assert run(scenario).counts() == {Limit.HTTP_REQUEST_TIMEOUT.value: 1}


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", POST + b"abcd" + b"nonsense\r\n\r\n"])
def test_invalid_requests_are_refused(data: bytes) -> None:
    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        connection.data_received(data)
        await settle()
        assert socket.closed
        assert b"HTTP/1.1 400 " in socket.written
        assert b'{"reason": "Invalid HTTP request received."}' in socket.written

    with capture_logs() as lines:
        assert run(scenario).counts() == {}
    assert [line["event"] for line in lines] == ["web_server_warning"]


def test_the_body_of_a_request_without_a_length_ends_the_connection_after_the_answer() -> None:
    """Node.js sends it so with GET and DELETE; the next request of the connection would follow the body."""

    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        connection.data_received(GET.replace(b"GET", b"DELETE") + b"{}")
        await settle()
        assert socket.written.startswith(b"HTTP/1.1 204 ")
        assert b"connection: close\r\n" in socket.written.lower()
        assert socket.written.count(b"HTTP/1.1 ") == 1
        assert socket.closed

    assert run(scenario).counts() == {}


def test_bytes_that_cannot_begin_a_request_end_an_idle_connection() -> None:
    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        connection.data_received(GET)
        await settle()
        assert not socket.closed
        connection.data_received(b"{}")
        assert b"HTTP/1.1 400 " in socket.written
        assert socket.closed

    assert run(scenario).counts() == {}


def test_a_request_that_follows_at_once_is_answered() -> None:
    async def scenario(web: Web) -> None:
        connection, socket = web.connect()
        connection.data_received(GET + GET[:5])
        await settle()
        connection.data_received(GET[5:])
        await settle()
        assert socket.written.count(b"HTTP/1.1 204 ") == 2
        assert not socket.closed

    assert run(scenario).counts() == {}


def test_nonsense_behind_a_refused_body_ends_the_connection() -> None:
    """The response is already sent, so there can be no other."""
    head = b"POST /answer HTTP/1.1\r\nHost: broker\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def refusing(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 413, "headers": []})
        await send({"type": "http.response.body"})

    async def scenario(web: Web) -> None:
        web.server.config.loaded_app = refusing
        connection, socket = web.connect()
        connection.data_received(head)
        await settle()
        assert b"HTTP/1.1 413 " in socket.written
        connection.data_received(b"no size of a chunk\r\n")
        assert socket.closed

    run(scenario)


async def ask(web: Web, *, reads: bool) -> tuple[WebConnection, FakeSocket]:
    """Request a large response, which the client reads or leaves unread."""
    connection, socket = web.connect()
    socket.reads = reads
    connection.data_received(GET)
    await settle()
    return connection, socket


def test_answers_that_are_not_read_take_no_more_than_their_share() -> None:
    async def scenario(web: Web) -> None:
        web.server.config.loaded_app = AnswerLimit(large_answer)
        sockets = [(await ask(web, reads=False))[1] for _ in range(5)]
        assert [socket.written[:12] for socket in sockets] == [b"HTTP/1.1 200"] * 2 + [b"HTTP/1.1 503"] * 3
        assert b"(maxRestAnswersSizeInMB)" in sockets[-1].written
        assert 2 * ANSWER_SIZE <= web.answers.used < ANSWERS_SIZE_MAX
        for _, socket in [await ask(web, reads=True) for _ in range(2)]:
            assert socket.written.startswith(b"HTTP/1.1 503")

    assert run(scenario, connections_max=10).counts() == {Limit.HTTP_ANSWERS_SIZE.value: 5}


def test_clients_that_read_nothing_are_dropped_when_others_want_the_memory() -> None:
    async def scenario(web: Web) -> None:
        web.server.config.loaded_app = AnswerLimit(large_answer)
        (_, idle), (_, slow) = [await ask(web, reads=False) for _ in range(2)]
        web.look_after(1)
        web.look_after(RECEIVE_STALL_S)
        assert not idle.closed  # no client needs the memory
        await ask(web, reads=True)
        slow.unread -= 100_000
        web.look_after(0.1)
        assert [idle.closed, slow.closed] == [True, False]
        _, idle = await ask(web, reads=False)
        assert idle.written.startswith(b"HTTP/1.1 200")
        await ask(web, reads=True)
        for _ in range(3):
            assert not idle.closed
            web.look_after(1)
            slow.unread -= 100_000
        assert [idle.closed, slow.closed] == [True, False]

    run(scenario, connections_max=10)


def test_an_answer_that_was_read_takes_no_memory() -> None:
    async def scenario(web: Web) -> None:
        web.server.config.loaded_app = AnswerLimit(large_answer)
        for _ in range(10):
            await ask(web, reads=True)
        assert web.answers.used == 0
        connection, socket = await ask(web, reads=False)
        assert web.answers.used >= ANSWER_SIZE
        socket.unread = 0
        connection.resume_writing()
        assert web.answers.used == 0
        connection, _ = await ask(web, reads=False)
        connection.connection_lost(None)
        assert web.answers.used == 0

    assert run(scenario, connections_max=20).counts() == {}


def test_an_answer_that_is_larger_than_the_share_is_sent_alone() -> None:
    buffers, hits = SendBuffers(ANSWER_SIZE // 2, ANSWER_SIZE // 2), LimitHits()
    answers = Answers(buffers, hits)
    assert answers.admits(ANSWER_SIZE)
    buffers.used = 1
    assert not answers.admits(ANSWER_SIZE)
    assert answers.is_wanted(now=5.0)
    assert hits.counts()[Limit.HTTP_ANSWERS_SIZE.value] == 1


def test_connections_without_requests_keep_nobody_out(tmp_path: Path) -> None:
    with BrokerInProcess(tmp_path, SystemFiles(), maxHttpServerConnections=3) as broker:
        address = urlsplit(broker.admin_url)
        idle = [create_connection((address.hostname, address.port)) for _ in range(10)]
        metrics = httpx.get(f"{broker.admin_url}/metrics/", trust_env=False).text
        for each in idle:
            each.close()
    hits = re.search(
        r'magnetar_limit_hits_total\{cluster="standalone",limit="maxHttpServerConnections"\} (\S+)', metrics
    )
    assert hits is not None
    assert float(hits[1]) >= 8


def test_a_client_that_leaves_within_a_request_is_no_error(tmp_path: Path) -> None:
    with capture_logs() as lines, BrokerInProcess(tmp_path, SystemFiles()) as broker:
        address = urlsplit(broker.admin_url)
        request = b"PUT /admin/v2/tenants/x HTTP/1.1\r\nHost: broker\r\nContent-Length: 9\r\n\r\n{"
        leaving, staying = (create_connection((address.hostname, address.port)) for _ in range(2))
        for each in (leaving, staying):
            each.sendall(request)
        leaving.close()
        assert broker.rest.get("tenants") == ["public"]
    staying.close()
    problems = {line["event"] for line in lines if line["log_level"] in {"warning", "error"}}
    assert problems <= {"event_loop_stalled"}, problems  # the disk may be slow during the start
