"""The REST API: slow and endless requests, bodies that are too large, and storms of changes."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.attacks.publishing import metadata
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import connect, frame, publishing, pump, repeatedly, send_frame
from tests.kit.rest import Rest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.hostile.catalogue import Target

MEBIBYTE = 1 << 20
HUGE_BODY_BYTES = 300 * MEBIBYTE
TIMEOUT_S = 2.0


def _open(target: Target) -> socket.socket:
    return socket.create_connection(target.web_address, timeout=TIMEOUT_S)


def _open_many(target: Target, count: int) -> list[socket.socket]:
    """Open up to ``count`` connections; the broker may refuse some."""
    opened: list[socket.socket] = []
    with contextlib.suppress(OSError):
        while len(opened) < count and target.is_time_left:
            opened += [_open(target)]
    return opened


def _head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: broker", *lines, "", ""]).encode()


def _throw(target: Target, requests: Iterable[bytes]) -> int:
    """Send each request on a connection of its own and read a part of its answer."""
    source: Iterator[bytes] = iter(requests)

    def act(_count: int) -> None:
        request = next(source)
        with _open(target) as connection:
            connection.sendall(request)
            connection.recv(1000)

    return repeatedly(target, act)


def _topic_path(target: Target, name: str = "t") -> str:
    return f"/admin/v2/persistent/{target.namespace}/{quote(name, safe='')}"


@behaviour("200 requests whose headers arrive a byte at a time.", seconds=6.0)
def slow_headers(target: Target) -> int:
    head = _head("GET", "/admin/v2/clusters", "X-Slow: " + "x" * 10_000)
    connections = _open_many(target, 200)
    at = 0
    while target.is_time_left:
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.send(head[at : at + 1])
        at += 1
        time.sleep(0.02)
    _close(connections)
    return at * len(connections)


@behaviour("A body of 300 MB.", seconds=6.0)
def huge_body(target: Target) -> int:
    head = _head("PUT", f"/admin/v2/clusters/{'x' * 10}", f"Content-Length: {HUGE_BODY_BYTES}")

    def act(_count: int) -> None:
        with _open(target) as connection:
            connection.sendall(head)
            for _ in range(HUGE_BODY_BYTES // MEBIBYTE):
                connection.sendall(bytes(MEBIBYTE))
            connection.recv(1000)

    return repeatedly(target, act)


@behaviour("50 bodies in chunks without end, in turn.", seconds=6.0)
def endless_chunks(target: Target) -> int:
    head = _head("POST", f"/admin/v2/namespaces/{target.namespace}/retention", "Transfer-Encoding: chunked")
    connections = _open_many(target, 50)
    sent = 0
    for connection in connections:
        connection.sendall(head)
    while target.is_time_left and connections:
        for connection in tuple(connections):
            try:
                connection.sendall(b"10000\r\n" + bytes(0x10000) + b"\r\n")
                sent += 1
            except OSError:
                connections.remove(connection)
                connection.close()
    _close(connections)
    return max(sent, 1)


@behaviour("Bodies of 1 MB in chunks of one byte.", seconds=6.0)
def tiny_chunks(target: Target) -> int:
    head = _head("POST", f"/admin/v2/namespaces/{target.namespace}/retention", "Transfer-Encoding: chunked")
    chunks = b"1\r\n \r\n" * 1_000_000

    def act(_count: int) -> None:
        with _open(target) as connection:
            connection.sendall(head + chunks)

    return repeatedly(target, act)


@behaviour("Bodies of 1 MB, most of it spaces, on 500 connections at the same time.", seconds=8.0)
def body_flood(target: Target) -> int:
    head = _head("POST", f"/admin/v2/namespaces/{target.namespace}/retention", "Content-Length: 1000000")
    request = head + b" " * 1_000_000
    places = dict.fromkeys(_open_many(target, 500), 0)
    for connection in places:
        connection.setblocking(False)
    sent = 0
    while target.is_time_left and places:
        for connection, place in tuple(places.items()):
            try:
                sent += 1
                places[connection] = (place + connection.send(request[place : place + 300_000])) % len(request)
            except BlockingIOError:
                pass
            except OSError:
                del places[connection]
                connection.close()
    _close(list(places))
    return max(sent, 1)


@behaviour("1,000 REST connections that are idle.", seconds=8.0)
def idle_connections(target: Target) -> int:
    connections = _open_many(target, 1000)
    time.sleep(target.seconds_left)
    _close(connections)
    return len(connections)


@behaviour("500 REST connections that ask in the same moment, again and again.", seconds=6.0)
def asking_together(target: Target) -> int:
    connections = _open_many(target, 500)
    head = _head("GET", "/admin/v2/clusters", *(f"X-{each}: x" for each in range(300)))
    asked = 0
    while target.is_time_left:
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(head)
                asked += 1
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.recv(MEBIBYTE)
    _close(connections)
    return asked


@behaviour("JSON that is nested 100,000 deep, cut off, not JSON, and not UTF-8.")
def false_json(target: Target) -> int:
    bodies = (
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b"{",
        b"not JSON",
        b"\xff\xfe\x00",
        b"1e999999",
        b"9" * 100_000,
        b'"' + b"\\ud800" * 1000 + b'"',
        json.dumps({"retentionTimeInMinutes": 10**30, "retentionSizeInMB": -(10**30)}).encode(),
        json.dumps({"retentionTimeInMinutes": "x", "unknown": [1]}).encode(),
    )
    path = f"/admin/v2/namespaces/{target.namespace}/retention"
    return _throw(
        target,
        (
            _head("POST", path, f"Content-Length: {len(body)}", "Content-Type: application/json") + body
            for body in itertools.cycle(bodies)
        ),
    )


@behaviour("JSON of 1 MiB with as many values as fit, for each kind of body.", seconds=6.0)
def many_values(target: Target) -> int:
    bodies = (
        b"[" + b"1," * 500_000 + b"1]",
        b"[" + b"[]," * 340_000 + b"1]",
        b'{"adminRoles":[' + b"1," * 500_000 + b"1]}",
        b'{"properties":{' + b",".join(b'"%x":1' % each for each in range(90_000)) + b"}}",
        b"{" + b'"":1,' * 170_000 + b'"":1}',
    )
    namespace = f"/admin/v2/namespaces/{target.namespace}"
    requests = (
        ("PUT", "/admin/v2/tenants/many-values"),
        ("PUT", f"{namespace}-many-values"),
        ("POST", f"{namespace}/replication"),
        ("POST", f"{namespace}/retention"),
        ("PUT", f"{_topic_path(target)}/properties"),
    )
    return _throw(
        target,
        (
            _head(method, path, f"Content-Length: {len(body)}", "Content-Type: application/json") + body
            for (method, path), body in itertools.cycle(itertools.product(requests, bodies))
        ),
    )


@behaviour("Request lines and headers of up to 5 MB, and 10,000 headers.")
def huge_heads(target: Target) -> int:
    requests = (
        _head("GET", "/admin/v2/clusters?" + "x" * 60_000),
        _head("GET", "/admin/v2/" + "x" * (5 * MEBIBYTE)),
        _head("GET", "/admin/v2/clusters", "X: " + "x" * (5 * MEBIBYTE)),
        _head("GET", "/admin/v2/clusters", *(f"X-{each}: x" for each in range(10_000))),
        _head("GET", "/admin/v2/clusters?" + "&".join(f"a{each}=1" for each in range(10_000))),
    )
    return _throw(target, itertools.cycle(requests))


@behaviour("Path traversal, encoded slashes, NUL, and names of 100 KB in paths.")
def false_paths(target: Target) -> int:
    paths = (
        "/../../../../etc/passwd",
        "/admin/v2/..%2f..%2f..%2fetc%2fpasswd",
        "/admin/v2/persistent/%2e%2e/%2e%2e/t/stats",
        "/admin/v2/persistent/a%00b/c/t/stats",
        f"/admin/v2/persistent/{'x' * 50_000}/y/t/stats",
        f"{_topic_path(target, 'x' * 20_000)}/stats",
        f"{_topic_path(target)}/subscription/%FF%FE/position/1",
        f"{_topic_path(target)}/ledger/{10**40}/entry/{10**40}",
        f"{_topic_path(target)}/messageid/{10**40}",
        "//admin//v2//clusters",
        "*",
        "http://elsewhere/admin/v2/clusters",
    )
    methods = ("GET", "PUT", "DELETE", "POST")
    requests = [_head(method, path, "Content-Length: 0") for path in paths for method in methods]
    return _throw(target, itertools.cycle(requests))


@behaviour("Verbs that nobody knows, TRACE, CONNECT, upgrades, and pipelined requests.")
def false_verbs(target: Target) -> int:
    requests = (
        _head("TRACE", "/admin/v2/clusters"),
        _head("CONNECT", "elsewhere:80"),
        _head("X" * 10_000, "/"),
        _head("GET", "/admin/v2/clusters", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: x"),
        _head("GET", "/admin/v2/clusters", "Content-Length: 5", "Content-Length: 7"),
        _head("POST", "/admin/v2/clusters/x", "Content-Length: -1"),
        _head("POST", "/admin/v2/clusters/x", "Content-Length: 10", "Transfer-Encoding: chunked"),
        _head("POST", "/admin/v2/clusters/x", "Expect: 100-continue", "Content-Length: 1000"),
        _head("GET", "/admin/v2/clusters") * 1000,
        _head("OPTIONS", "*"),
    )
    return _throw(target, itertools.cycle(requests))


@behaviour("Peeks at messages with CR/LF in keys, times out of range and false compression.", seconds=5.0)
def peeks_at_strange_messages(target: Target) -> int:
    heads = (
        metadata(partition_key="a\r\nX-Injected: yes"),
        metadata(properties=[pb.KeyValue(key="a\r\nb", value="\u202e\U0001f4a5"), pb.KeyValue(key="", value="\x00")]),
        metadata(publish_time=2**64 - 1, event_time=2**64 - 1),
        metadata(compression=pb.ZSTD, uncompressed_size=2**32 - 1),
        metadata(num_messages_in_batch=2),
    )
    with publishing(target) as connection:
        connection.subscribe(target.topic(), "s")
        connection.socket.sendall(
            b"".join(send_frame(build_entry(head, b"x"), each) for each, head in enumerate(heads))
        )
        connection.is_closed_by_peer(0.3)
    paths = [f"{_topic_path(target)}/subscription/s/position/{each}" for each in (0, 1, 2, 3, 4, 5, 10**15)]
    return _throw(target, itertools.cycle(_head("GET", path) for path in paths))


@behaviour("/metrics as fast as it answers, on four connections, with 2,000 topics.", seconds=12.0)
def metrics_storm(target: Target) -> int:
    _make_topics(target, 2000)
    return _ask(target, "/metrics/", connections=4)


@behaviour("Statistics of topics and of the namespace as fast as they are answered.", seconds=6.0)
def stats_storm(target: Target) -> int:
    _make_topics(target, 200)
    paths = [f"{_topic_path(target, f't{each}')}/stats?getPreciseBacklog=true" for each in range(200)]
    paths += [f"/admin/v2/persistent/{target.namespace}", f"/admin/v2/namespaces/{target.namespace}/topics"]
    return _ask(target, *paths)


def _make_topics(target: Target, count: int) -> None:
    frames = (
        frame("PRODUCER", topic=target.topic(f"t{each}"), producer_id=each, request_id=each) for each in range(count)
    )
    with connect(target) as connection:
        pump(target, connection, frames)


def _ask(target: Target, *paths: str, connections: int = 1) -> int:
    """GET the paths in turn on kept connections; return the count of requests."""
    asked = 0
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        opened = [stack.enter_context(_open(target)) for _ in range(connections)]
        for path in itertools.cycle(paths):
            if not target.is_time_left:
                break
            for connection in opened:
                connection.sendall(_head("GET", path))
                asked += 1
            for connection in opened:
                connection.recv(MEBIBYTE)
    return asked


@behaviour("Policies of a namespace with 3,000 topics change without end.", seconds=12.0)
def policy_storm(target: Target) -> int:
    _make_topics(target, 3000)
    policies = ("retention", "messageTTL", "deduplication", "replication")
    values = ({"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}, 100, True, ["standalone"])

    def act(count: int) -> None:
        which = count % len(policies)
        value = count if policies[which] == "messageTTL" else values[which]
        rest.request("POST", f"namespaces/{target.namespace}/{policies[which]}", value)

    with Rest(target.admin_url) as rest:
        return repeatedly(target, act)


@behaviour("Properties of a megabyte are added to a namespace without end, with other names each time.", seconds=6.0)
def large_document(target: Target) -> int:
    def act(count: int) -> None:
        rest.request("PUT", f"namespaces/{target.namespace}/properties", {f"k{count}": "x" * (MEBIBYTE - 100)})

    with Rest(target.admin_url) as rest:
        return repeatedly(target, act)


@behaviour("A namespace with 1,000 topics gets 1,000 properties at a time, as many as it takes.", seconds=12.0)
def many_properties(target: Target) -> int:
    _make_topics(target, 1000)

    def act(count: int) -> None:
        properties = {f"k{count * 1000 + each}": "" for each in range(1000)}
        rest.request("PUT", f"namespaces/{target.namespace}/properties", properties)

    with Rest(target.admin_url) as rest:
        return repeatedly(target, act)


@behaviour("Topics are created, subscribed to and deleted without end.", seconds=6.0)
def topics_created_and_deleted(target: Target) -> int:
    path = f"persistent/{target.namespace}"

    def act(count: int) -> None:
        name = f"{path}/t{count % 10}"
        rest.request("PUT", name)
        rest.request("PUT", f"{name}/subscription/s")
        rest.request("DELETE", f"{name}?force=true")

    with Rest(target.admin_url) as rest:
        return repeatedly(target, act)


@behaviour("Partitioned topics with 1,000 partitions, and with 2^31-1, created and deleted.", seconds=8.0)
def many_partitions(target: Target) -> int:
    path = f"persistent/{target.namespace}/t"

    def act(count: int) -> None:
        rest.request("PUT", f"{path}/partitions", (1000, 2**31 - 1, -1, 10**30)[count % 4])
        rest.request("GET", f"{path}/partitioned-stats")
        rest.request("DELETE", f"{path}/partitions?force=true")

    with Rest(target.admin_url) as rest:
        return repeatedly(target, act)


@behaviour("Tenants, namespaces and clusters are created and deleted without end.", seconds=5.0)
def tenants_created_and_deleted(target: Target) -> int:
    def act(count: int) -> None:
        name = f"h{count % 5}"
        rest.request("PUT", f"clusters/{name}", {"serviceUrl": "http://127.0.0.1:1"})
        rest.request("PUT", f"tenants/{name}", {"adminRoles": [], "allowedClusters": ["standalone"]})
        rest.request("PUT", f"namespaces/{name}/n", {})
        rest.request("DELETE", f"namespaces/{name}/n?force=true")
        rest.request("DELETE", f"tenants/{name}")
        rest.request("DELETE", f"clusters/{name}")

    with Rest(target.admin_url) as rest:
        return repeatedly(target, act)


def _close(connections: list[socket.socket]) -> None:
    for connection in connections:
        connection.close()
