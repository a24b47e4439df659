"""The admin REST API, spoken without any code of Magnetar."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote

import httpx

Json = Any
"""What an answer holds, decoded."""


class Rest:
    """Admin requests to one cluster; an answer above 399 raises httpx.HTTPStatusError with Pulsar's reason in it."""

    def __init__(self, admin_url: str, timeout_s: float = 30.0) -> None:
        """Speak to ``admin_url``, such as ``http://127.0.0.1:8080``."""
        self._metrics_url = f"{admin_url}/metrics/"
        self._http = httpx.Client(base_url=f"{admin_url}/admin/v2/", timeout=timeout_s)

    def __enter__(self) -> Self:
        """Return itself; the connection is closed at exit."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send ``body`` as JSON to ``path`` below ``/admin/v2/`` and return the answer, whatever it is."""
        return self._http.request(method, path, json=body) if body is not None else self._http.request(method, path)

    def call(self, method: str, path: str, body: object = None) -> Json:
        """Return the decoded answer, None when it has no body."""
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
        """PUT ``path`` unless it is there already."""
        response = self.request("PUT", path, body)
        if response.is_error and response.status_code != HTTPStatus.CONFLICT:
            message = f"PUT {path}: {response.status_code} {response.text}"
            raise httpx.HTTPStatusError(message, request=response.request, response=response)

    def is_healthy(self) -> bool:
        """Whether the broker says that it is well."""
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
        """Return the entries that the subscription has not acknowledged."""
        backlog: int = self.stats(topic)["subscriptions"][subscription]["msgBacklog"]
        return backlog

    def cursor(self, topic: str, subscription: str) -> Json:
        """Return the cursor's internal stats."""
        return self.internal_stats(topic)["cursors"][subscription]


def topic_path(topic: str) -> str:
    """``persistent://t/n/x`` as a path: ``persistent/t/n/x``, the last part encoded."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, local_name = rest.split("/", 2)
    encoded = quote(local_name, safe="")
    if local_name in (".", ".."):  # a client would take these parts of a path away
        encoded = encoded.replace(".", "%2E")
    return f"{domain}/{tenant}/{namespace}/{encoded}"
