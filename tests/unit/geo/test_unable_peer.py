"""A peer that is not Magnetar: the missing feature is logged once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from structlog.testing import capture_logs

from magnetar.base.real import SystemClock
from magnetar.geo.progress.link import LinkOptions, ProgressLinks

if TYPE_CHECKING:
    from magnetar.client.connection import PulsarConnection


@dataclass
class Peer:
    peer_version: str
    peer_is_magnetar: bool


def connection(version: str, *, is_magnetar: bool) -> PulsarConnection:
    return cast("PulsarConnection", Peer(version, is_magnetar))


def test_it_is_logged_when_it_is_found_out_and_not_again() -> None:
    links = ProgressLinks("ewr", lambda _: None, SystemClock(), LinkOptions(0.05, 60.0))
    apache, magnetar = connection("Pulsar Server4.0.7", is_magnetar=False), connection("Magnetar 1", is_magnetar=True)
    with capture_logs() as logs:
        reasons = {links.unavailable("apache", apache) for _topic in range(3)}
        assert links.unavailable("jfk", magnetar) == ""
    (reason,) = reasons
    assert reason.startswith("Pulsar Server4.0.7 takes no progress markers")
    assert "receives again what was acknowledged later" in reason
    assert [(log["event"], log["peer"], log["reason"]) for log in logs] == [
        ("exact_progress_unavailable", "apache", reason)
    ]


def test_a_peer_that_was_replaced_by_one_that_can_is_told_of_anew_when_it_cannot_again() -> None:
    links = ProgressLinks("ewr", lambda _: None, SystemClock(), LinkOptions(0.05, 60.0))
    with capture_logs() as logs:
        links.unavailable("x", connection("Pulsar", is_magnetar=False))
        assert links.unavailable("x", connection("Magnetar", is_magnetar=True)) == ""
        links.unavailable("x", connection("Pulsar", is_magnetar=False))
    assert len(logs) == 2
