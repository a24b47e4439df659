"""HTTP connection to the admin API of a cluster."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx

from magnetar.base.errors import AdminError, ClusterUnreachableError
from magnetar.metasync.local.scope import LOCAL, SCOPE
from magnetar.security.credentials import NONE, Credentials

if TYPE_CHECKING:
    import ssl

TIMEOUT_SECONDS = 60.0
"""Timeout of a request (``readTimeoutMs`` of Pulsar's admin client)."""


class Connection:
    """Requests to one admin URL."""

    def __init__(
        self, url: str, transport: httpx.BaseTransport | None, timeout_s: float, credentials: Credentials = NONE
    ) -> None:
        """Send requests to ``url`` through ``transport``, by default the network; nothing is sent yet.

        Raises ConfigurationError if the certificates cannot be read.
        """
        self.url = url.rstrip("/")
        self.credentials = credentials
        # Redirects to the owner of a topic keep the method (307); proxies of the environment must not see a
        # cluster on localhost.
        self._http = httpx.Client(
            transport=transport,
            timeout=timeout_s,
            follow_redirects=True,
            trust_env=False,
            verify=_default_tls() if credentials == NONE else credentials.tls(),
            event_hooks={"request": [self._authorize]},
        )

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:  # noqa: ANN401 - httpx's own
        """Send a request and return the answer; raises AdminError if refused, ClusterUnreachableError if unanswered.

        Raises ConfigurationError if the credentials cannot be read.
        """
        try:
            response = self._http.request(method, f"{self.url}{path}", **options)
        except (httpx.RequestError, httpx.InvalidURL) as error:
            message = f"no answer from {self.url}: {error}; is the broker running, and is this its admin URL?"
            raise ClusterUnreachableError(message) from error
        if not response.is_success:
            raise AdminError(_status(response), _reason(response))
        return response

    def get(self, path: str, **parameters: str | int | bool) -> Any:  # noqa: ANN401 - any JSON value
        """Return the JSON value at ``path``; None if it is not set."""
        response = self.send("GET", path, params=_query(parameters))
        try:
            return response.json() if response.content else None
        except ValueError:
            message = f"the answer of {self.url} is not JSON: it is not the admin URL of a cluster"
            raise ClusterUnreachableError(message) from None

    def put(self, path: str, value: object = None, **parameters: str | int | bool) -> None:
        """Create."""
        self.send("PUT", path, json=value, params=_query(parameters))

    def post(self, path: str, value: object = None, **parameters: str | int | bool) -> None:
        """Change."""
        self.send("POST", path, json=value, params=_query(parameters))

    def delete(self, path: str, **parameters: str | int | bool) -> None:
        """Remove."""
        self.send("DELETE", path, params=_query(parameters))

    def _authorize(self, request: httpx.Request) -> None:
        """Add the credentials, also to a redirected request: the owner of a topic is another broker of the cluster."""
        authorization = self.credentials.authentication.authorization()
        if authorization is not None:
            request.headers["Authorization"] = authorization

    def keep_changes_local(self) -> None:
        """Ask for changes in this cluster only with each further request."""
        self._http.headers[SCOPE] = LOCAL

    @property
    def keeps_changes_local(self) -> bool:
        """Whether each request asks for changes in this cluster only."""
        return SCOPE in self._http.headers

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


@cache
def _default_tls() -> ssl.SSLContext:
    """Return the context of clients that trust the authorities of the system; to read these takes up to 0.1 s."""
    return NONE.tls()


def _query(parameters: dict[str, str | int | bool]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in parameters.items()}


def _status(response: httpx.Response) -> HTTPStatus:
    """Return the status of an answer; an undefined status counts as 500."""
    try:
        return HTTPStatus(response.status_code)
    except ValueError:
        return HTTPStatus.INTERNAL_SERVER_ERROR


def _reason(response: httpx.Response) -> str:
    try:
        # Apache Pulsar adds a stack trace to the reason of an internal error.
        return str(response.json()["reason"]).partition("Stacktrace:")[0].strip()
    except (ValueError, KeyError, TypeError):
        return response.reason_phrase or f"status {response.status_code}"
