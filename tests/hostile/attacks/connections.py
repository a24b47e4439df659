"""Connections: many, short, silent, half-closed, reset, and as many as there are descriptors."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from typing import TYPE_CHECKING

from tests.hostile.catalogue import behaviour
from tests.hostile.tools import (
    RECEIVE_BYTES,
    answer_pings,
    connect,
    fill,
    frame,
    hold_many,
    open_many,
    publishing,
    pump,
    pump_again,
    repeatedly,
    reset,
    send_frame,
)
from tests.kit.raw import RawConnection, entry

if TYPE_CHECKING:
    from tests.hostile.catalogue import Target

MORE_THAN_ALLOWED = 2500
"""Connections that the broker of the suite does not accept at the same time."""

LARGE = bytes(1 << 20)


@behaviour("1,000 connections that are opened and closed at once.", seconds=6.0)
def opened_and_closed(target: Target) -> int:
    return repeatedly(target, lambda _: RawConnection(target.service_url).close(), count_max=1000)


@behaviour("1,000 connections that are opened in the same moment, again and again.", seconds=6.0)
def opened_together(target: Target) -> int:
    def act(_count: int) -> None:
        opened = [socket.socket() for _ in range(1000)]
        for each in opened:
            each.setblocking(False)
            each.connect_ex(target.address)
        time.sleep(0.3)
        for each in opened:
            each.close()

    return repeatedly(target, act)


@behaviour("300 connections that each ask without end.", seconds=6.0)
def asking_together(target: Target) -> int:
    opened = open_many(target, 300, lambda: connect(target))
    lookup = frame("LOOKUP", topic=target.topic(), request_id=1)
    sent = 0
    for each in opened:
        each.socket.setblocking(False)
    while target.is_time_left:
        for each in opened:
            with contextlib.suppress(OSError):
                sent += each.socket.send(lookup * 200)
                each.socket.recv(RECEIVE_BYTES)
    _close(opened)
    return sent // len(lookup)


@behaviour("Connections that shake hands, subscribe, publish and vanish with RST.", seconds=5.0)
def crowd_that_vanishes(target: Target) -> int:
    def act(count: int) -> None:
        connection = connect(target)
        connection.send("PRODUCER", topic=target.topic(f"t{count % 5}"), producer_id=1, request_id=1)
        connection.send(
            "SUBSCRIBE", topic=target.topic(f"t{count % 5}"), subscription="s", subType=1, consumer_id=1, request_id=2
        )
        reset(connection)

    return repeatedly(target, act)


@behaviour("RST in the middle of a SEND of 1 MB.")
def reset_in_send(target: Target) -> int:
    data = send_frame(entry(LARGE))

    def act(_count: int) -> None:
        connection = publishing(target)
        connection.socket.sendall(data + data[: len(data) // 2])
        reset(connection)

    return repeatedly(target, act)


@behaviour("Sockets that are shut down for writing and stay open.")
def half_closed(target: Target) -> int:
    def act(_count: int) -> None:
        with connect(target) as connection:
            connection.socket.shutdown(socket.SHUT_WR)
            connection.is_closed_by_peer(0.2)

    return repeatedly(target, act)


@behaviour("500 connections that never send CONNECT.", seconds=6.0)
def silent(target: Target) -> int:
    return hold_many(target, 500, lambda: RawConnection(target.service_url))


@behaviour("As many connections as the broker accepts, and more.", seconds=10.0)
def up_to_the_limit(target: Target) -> int:
    opened = open_many(target, MORE_THAN_ALLOWED, lambda: RawConnection(target.service_url))
    answer_pings(target, opened)
    _close(opened)
    return len(opened)


@behaviour("All descriptors are taken while segments of the log roll.", seconds=12.0)
def descriptors_exhausted(target: Target) -> int:
    publisher = publishing(target)
    opened = open_many(target, MORE_THAN_ALLOWED, lambda: RawConnection(target.service_url))
    web = []
    with contextlib.suppress(OSError):
        for _ in range(MORE_THAN_ALLOWED):
            web.append(socket.create_connection(target.web_address, timeout=0.2))
            if not target.is_time_left:
                break
    sent = pump(target, publisher, (send_frame(entry(LARGE, each), each) for each in itertools.count()))
    fill(target, 5, 1 << 20, "after")
    publisher.close()
    _close(opened)
    for connection in web:
        connection.close()
    return sent


@behaviour("Requests pour in and no answer is read.")
def answers_unread(target: Target) -> int:
    lookups = frame("LOOKUP", topic=target.topic("x" * 200), request_id=1) * 500
    return pump_again(target, lambda: connect(target), lookups, reads=False)


@behaviour("50 connections that send half a command and then nothing.", seconds=5.0)
def half_a_command(target: Target) -> int:
    data = frame("LOOKUP", topic=target.topic(), request_id=1)

    def open_one() -> RawConnection:
        connection = connect(target)
        connection.socket.sendall(data[: len(data) // 2])
        return connection

    return hold_many(target, 50, open_one)


@behaviour("200 connections that receive with a window of a few bytes.", seconds=6.0)
def tiny_windows(target: Target) -> int:
    def open_one() -> RawConnection:
        connection = connect(target)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        connection.socket.sendall(frame("LOOKUP", topic=target.topic(), request_id=1) * 100)
        return connection

    opened = open_many(target, 200, open_one)
    while target.is_time_left:
        for connection in opened:
            connection.socket.setblocking(False)
            with contextlib.suppress(OSError):
                connection.socket.recv(1)
        time.sleep(0.05)
    _close(opened)
    return len(opened)


def _close(connections: list[RawConnection]) -> None:
    for connection in connections:
        connection.close()
