"""A client of the admin REST API without code of Magnetar."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import httpx

if TYPE_CHECKING:
    import ssl

Json = Any
"""A decoded response."""


class Rest:
    """A client of one cluster. A response above 399 raises httpx.HTTPStatusError with Pulsar's reason."""

    def __init__(self, admin_url: str, timeout_s: float = 30.0, context: ssl.SSLContext | None = None) -> None:
        """Use ``admin_url``, such as ``http://127.0.0.1:8080``; ``context`` is for one with TLS."""
        self._metrics_url = f"{admin_url}/metrics/"
        self._http = httpx.Client(base_url=f"{admin_url}/admin/v2/", timeout=timeout_s, verify=context or True)

    def __enter__(self) -> Self:
        """Return the client; the connection is closed at exit."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def authorize(self, token: str) -> None:
        """Send ``token`` with each further request."""
        self._http.headers["Authorization"] = f"Bearer {token}"

    def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send ``body`` as JSON to ``path`` below ``/admin/v2/``, and return the response with any status."""
        return self._http.request(method, path, json=body) if body is not None else self._http.request(method, path)

    def call(self, method: str, path: str, body: object = None) -> Json:
        """Return the decoded response, None without a body."""
        response = self.request(method, path, body)
        if response.is_error:
            message = f"{method} {path}: {response.status_code} {response.text}"
            raise httpx.HTTPStatusError(message, request=response.request, response=response)
        return response.json() if response.content else None

    def get(self, path: str) -> Json:
        """GET ``path``."""
        return self.call("GET", path)

    def put(self, path: str, body: object = None) -> None:
        """PUT ``path``."""
        self.call("PUT", path, body)

    def post(self, path: str, body: object = None) -> None:
        """POST ``path``."""
        self.call("POST", path, body)

    def delete(self, path: str) -> None:
        """DELETE ``path``."""
        self.call("DELETE", path)

    def ensure(self, path: str, body: object) -> None:
        """PUT ``path``, unless it exists."""
        response = self.request("PUT", path, body)
        if response.is_error and response.status_code != HTTPStatus.CONFLICT:
            message = f"PUT {path}: {response.status_code} {response.text}"
            raise httpx.HTTPStatusError(message, request=response.request, response=response)

    def is_healthy(self) -> bool:
        """Return whether the broker reports that it is healthy."""
        try:
            return self.request("GET", "brokers/health").status_code == HTTPStatus.OK
        except httpx.TransportError:
            return False

    def stats(self, topic: str) -> Json:
        """Return the topic's stats."""
        return self.get(f"{topic_path(topic)}/stats?getPreciseBacklog=true")

    def internal_stats(self, topic: str) -> Json:
        """Return the topic's ledgers and cursors."""
        return self.get(f"{topic_path(topic)}/internalStats")

    def metrics(self) -> str:
        """Return the broker's metrics in Prometheus' text form."""
        response = self._http.get(self._metrics_url, follow_redirects=True)
        response.raise_for_status()
        return response.text

    def backlog(self, topic: str, subscription: str) -> int:
        """Return the number of unacknowledged entries of the subscription."""
        backlog: int = self.stats(topic)["subscriptions"][subscription]["msgBacklog"]
        return backlog

    def cursor(self, topic: str, subscription: str) -> Json:
        """Return the cursor's internal stats."""
        return self.internal_stats(topic)["cursors"][subscription]


def topic_path(topic: str) -> str:
    """Return ``persistent://t/n/x`` as a path: ``persistent/t/n/x``, with the last part encoded."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, local_name = rest.split("/", 2)
    encoded = quote(local_name, safe="")
    if local_name in (".", ".."):  # an HTTP client would remove these parts of a path
        encoded = encoded.replace(".", "%2E")
    return f"{domain}/{tenant}/{namespace}/{encoded}"
