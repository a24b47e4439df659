"""Proofs of a client's identity: the authentication plug-ins of Pulsar's clients that need no further service."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from magnetar.base.errors import ConfigurationError
from magnetar.security.files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FORMS = "token:TOKEN, file:///path/of/a/token or env:VARIABLE"
"""Parameters of ``AuthenticationToken``."""

_PACKAGE = "org.apache.pulsar.client.impl.auth."


class Authentication(Protocol):
    """A proof of identity. Values that can change are read at each use; a failure raises ConfigurationError."""

    @property
    def method(self) -> str:
        """``auth_method_name`` of CONNECT."""
        ...

    def data(self) -> bytes:
        """Return ``auth_data`` of CONNECT."""
        ...

    def authorization(self) -> str | None:
        """Return the value of the header Authorization; None if the method has none."""
        ...


@dataclass(frozen=True, slots=True)
class Anonymous:
    """No proof."""

    method: str = "none"

    def data(self) -> bytes:
        """Return nothing."""
        return b""

    def authorization(self) -> None:
        """Return None."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token in one of FORMS, or the token itself."""

    source: str = field(repr=False)
    method: str = "token"

    def data(self) -> bytes:
        """Return the token."""
        return self._token().encode()

    def authorization(self) -> str:
        """Return the token as a bearer's."""
        return f"Bearer {self._token()}"

    def _token(self) -> str:
        scheme, _, rest = self.source.partition(":")
        match scheme:
            case "token" | "data":
                token = rest
            case "file":
                token = read_text(unquote(urlsplit(self.source).path), "the token in ").strip()
            case "env":
                token = os.environ.get(rest, "")
            case _:
                token = self.source
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            message = f"the token is empty or no token\nhint: write {FORMS}"  # it may contain a secret
            raise ConfigurationError(message)
        return token


@dataclass(frozen=True, slots=True)
class Basic:
    """A user's name and password."""

    user: str
    password: str = field(repr=False)
    method: str = "basic"

    def data(self) -> bytes:
        """Return ``user:password``."""
        return f"{self.user}:{self.password}".encode()

    def authorization(self) -> str:
        """Return name and password as RFC 7617 has them."""
        return f"Basic {b64encode(self.data()).decode()}"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate of the TLS connection."""

    certificate_path: str
    key_path: str
    method: str = "tls"

    def data(self) -> bytes:
        """Return nothing: the handshake of TLS is the proof."""
        return b""

    def authorization(self) -> None:
        """Return None."""


def authentication(plugin: str, params: str) -> Authentication:
    """Return the proof for ``authPlugin`` and ``authParams`` of client.conf; raises ConfigurationError.

    A plug-in has the name of its class in Pulsar's Java client, or of its method. Without one, parameters in one of
    FORMS are those of a token.
    """
    if not plugin:
        if not params:
            return Anonymous()
        if not params.startswith(("token:", "file:", "env:")):
            message = f"the parameters of authentication must be {FORMS}\nhint: other ones need authPlugin"
            raise ConfigurationError(message)
        return Token(params)
    build = _PLUGINS.get(plugin.removeprefix(_PACKAGE).removeprefix("Authentication").lower())
    if build is None:
        known = ", ".join(_PLUGINS)
        message = f"authPlugin {plugin} is not supported\nhint: the supported ones are {known}"
        raise ConfigurationError(message)
    return build(params)


def _basic(params: str) -> Basic:
    found = _parameters("basic", params, ("userId", "password"))
    if ":" in found["userId"]:
        message = "authParams: userId must not contain a colon (RFC 7617)"
        raise ConfigurationError(message)
    return Basic(found["userId"], found["password"])


def _certificate(params: str) -> Certificate:
    found = _parameters("tls", params, ("tlsCertFile", "tlsKeyFile"))
    return Certificate(found["tlsCertFile"], found["tlsKeyFile"])


_PLUGINS: Mapping[str, Callable[[str], Authentication]] = {"token": Token, "basic": _basic, "tls": _certificate}


def _parameters(plugin: str, params: str, names: tuple[str, ...]) -> dict[str, str]:
    """Parse ``key:value,key:value``, or JSON."""
    try:
        if params.lstrip().startswith("{"):
            found = {str(name): str(value) for name, value in json.loads(params).items()}
        else:
            found = {name: value for name, _, value in (each.partition(":") for each in params.split(","))}
    except (ValueError, RecursionError):
        found = {}
    if not all(found.get(name) for name in names):
        message = f"authParams of {plugin} must have {' and '.join(names)}\nhint: write {names[0]}:...,{names[1]}:..."
        raise ConfigurationError(message)
    return found
