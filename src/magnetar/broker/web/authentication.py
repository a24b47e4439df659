"""Authentication of REST requests, before any handler sees them."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from magnetar.admin.exchange import refusal
from magnetar.admin.identity import set_principal
from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure
from magnetar.broker.authentication.authentication import Peer
from magnetar.security.peer_certificate import STATE_KEY
from magnetar.security.providers.service import RequestCredentials

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from magnetar.broker.authentication.authentication import Authentication

OPEN: Final = frozenset({b"/status.html"})
"""Paths without authentication, as in Pulsar."""

METRICS: Final = frozenset({b"/metrics", b"/metrics/"})
"""Paths without authentication, unless ``authenticateMetricsEndpoint`` says otherwise."""

_PROGRAM_LENGTH_MAX: Final = 256

_SCHEMES: Final = {"token": "Bearer", "basic": 'Basic realm="pulsar", charset="UTF-8"'}
"""Schemes of the header WWW-Authenticate by method."""


class RequestAuthentication:
    """Answers requests without a proved role with 401, and passes on the others with their principal."""

    def __init__(self, app: ASGIApp, authentication: Authentication, *, with_metrics: bool) -> None:
        """Protect ``app``; its metrics only if ``with_metrics``."""
        self._app = app
        self._authentication = authentication
        self._open = OPEN if with_metrics else OPEN | METRICS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["raw_path"] in self._open:
            await self._app(scope, receive, send)
            return
        try:
            principal = await self._authentication.of_request(_credentials(scope), _peer(scope))
        except AuthenticationFailedError as error:
            answer = refusal(HTTPStatus.UNAUTHORIZED, "Authentication required")
            for method in self._authentication.methods:
                if method in _SCHEMES:
                    answer.headers.append("WWW-Authenticate", _SCHEMES[method])
            if error.kind is AuthenticationFailure.LIMIT:
                text = f"Too many attempts to authenticate ({error.limit})"
                answer = refusal(HTTPStatus.TOO_MANY_REQUESTS, text)
            await answer(scope, receive, send)
            return
        set_principal(scope, principal)
        await self._app(scope, receive, send)


def _credentials(scope: Scope) -> RequestCredentials:
    return RequestCredentials(
        authorization=_header(scope, b"authorization"),
        method=_header(scope, b"x-pulsar-auth-method-name"),
        original_principal=_header(scope, b"x-original-principal"),
        certificate=scope["state"].get(STATE_KEY),
    )


def _header(scope: Scope, name: bytes) -> str:
    """Return a header; several with one name become a value that is not valid for any of them."""
    return ", ".join(value.decode("latin-1") for found, value in scope["headers"] if found == name)


def _peer(scope: Scope) -> Peer:
    host, port = scope["client"] or ("", 0)
    return Peer(host, f"{host}:{port}", _header(scope, b"user-agent")[:_PROGRAM_LENGTH_MAX])
