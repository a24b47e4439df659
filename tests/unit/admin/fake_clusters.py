"""Fake clusters that look like Magnetar, or like Apache Pulsar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from magnetar.admin.client import AdminClient
from magnetar.wire.connection import MAGNETAR_VERSION_PREFIX
from tests.unit.admin.fake_service import AppTransport

if TYPE_CHECKING:
    from tests.unit.admin.fake_service import FakeAdminService


class MagnetarTransport(AppTransport):
    """Answers with the header that a web server of Magnetar adds."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        answer.headers["server"] = MAGNETAR_VERSION_PREFIX
        return answer


class PulsarTransport(AppTransport):
    """Answers without the paths that Magnetar adds."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET" and request.url.path.endswith("/policies"):
            return httpx.Response(405)
        return super().handle_request(request)


def client_of(service: FakeAdminService, *, is_pulsar: bool = False) -> AdminClient:
    """Return a client of a fake cluster."""
    transport = PulsarTransport(service) if is_pulsar else MagnetarTransport(service)
    return AdminClient(service.admin_url, transport=transport)
