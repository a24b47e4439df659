"""The public keys of issuers of tokens (OpenID Connect Discovery, RFC 7517), fetched on demand and kept for a while."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import jwt

from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure
from magnetar.base.tasks import start_task
from magnetar.security.providers.keys import verification_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.security.providers.keys import VerificationKey

DISCOVERY: Final = "/.well-known/openid-configuration"

KEYS_MAX: Final = 100
"""Maximum number of keys of an issuer; further ones are ignored."""

RETRY_S: Final = 10.0
"""Seconds after a failed request for keys until the next one."""

_ALGORITHMS: Final = frozenset({"RS256", "RS384", "RS512", "ES256", "ES384", "ES512"})
"""The algorithms of tokens of issuers, as in Pulsar."""


class Fetch(Protocol):
    """Requests documents."""

    async def __call__(self, url: str) -> bytes:
        """Return a document; raises AuthenticationFailedError if that is not possible in time."""
        ...


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """Times for which keys are kept, in seconds."""

    size: int = 5
    """Maximum number of issuers whose keys are kept."""
    refresh_after_s: float = 18 * 3600
    """Age at which keys are requested again, while they are in use."""
    expire_after_s: float = 24 * 3600
    """Age at which keys are no longer used."""
    unknown_key_refresh_s: float = 300
    """Age at which a token with an unknown key lets the keys be requested again."""
    requires_https: bool = True


@dataclass(slots=True)
class _Issuer:
    keys: Mapping[str, VerificationKey] = field(default_factory=dict)
    fetched_at: float | None = None
    """When the keys were fetched; None before."""
    tried_at: float | None = None
    """When keys were last requested."""


class IssuerKeys:
    """The keys of the allowed issuers. Times are those of the wall clock."""

    def __init__(self, fetch: Fetch, options: CacheOptions) -> None:
        """Begin without keys."""
        self._fetch = fetch
        self._options = options
        self._issuers: dict[str, _Issuer] = {}
        """In the order of the last request."""
        self._fetching: dict[str, asyncio.Task[AuthenticationFailedError | None]] = {}

    async def find(self, issuer: str, key_id: str | None, now: float) -> VerificationKey:
        """Return a key of an allowed issuer; a token without a key id has the only one.

        Raises AuthenticationFailedError if there is none.
        Requests with unknown keys cannot make the broker request keys more often than the options allow.
        """
        known = self._issuers.get(issuer) or _Issuer()
        age = None if known.fetched_at is None else now - known.fetched_at
        if age is None or age >= self._options.expire_after_s or age < 0:
            await self._refreshed(issuer, known, now)
        elif age >= self._options.refresh_after_s and not self._has_just_tried(known, now):
            self._start(issuer, now)
        found = self._key(issuer, key_id)
        if found is None and age is not None and age >= self._options.unknown_key_refresh_s:
            await self._refreshed(issuer, known, now)
            found = self._key(issuer, key_id)
        if found is None:
            message = "the issuer of the token does not publish its key"
            raise AuthenticationFailedError(message)
        return found

    def close(self) -> None:
        """Cancel the requests in progress."""
        for task in self._fetching.values():
            task.cancel()

    async def _refreshed(self, issuer: str, known: _Issuer, now: float) -> None:
        """Wait for new keys; raises AuthenticationFailedError if they cannot be fetched."""
        if issuer not in self._fetching and self._has_just_tried(known, now):
            message = "the keys of the issuer of the token could not be fetched a short time ago"
            raise AuthenticationFailedError(message, AuthenticationFailure.ISSUER)
        failure = await asyncio.shield(self._start(issuer, now))
        if failure is not None:
            raise AuthenticationFailedError(str(failure), failure.kind)

    def _has_just_tried(self, known: _Issuer, now: float) -> bool:
        return known.tried_at is not None and 0 <= now - known.tried_at < RETRY_S

    def _start(self, issuer: str, now: float) -> asyncio.Task[AuthenticationFailedError | None]:
        """Request the keys of an issuer; one request serves all tokens that wait for it."""
        task = self._fetching.get(issuer)
        if task is None:
            entry = self._issuers.pop(issuer, None) or _Issuer()
            entry.tried_at = now
            self._issuers[issuer] = entry
            if len(self._issuers) > self._options.size:
                del self._issuers[next(iter(self._issuers))]
            work = self._request(issuer, entry, now)
            task = self._fetching[issuer] = start_task(asyncio.get_running_loop(), work, "keys of an issuer")
            task.add_done_callback(lambda _: self._fetching.pop(issuer, None))
        return task

    async def _request(self, issuer: str, entry: _Issuer, now: float) -> AuthenticationFailedError | None:
        try:
            metadata = await self._fetch(issuer.rstrip("/") + DISCOVERY)
            url = keys_url(metadata, issuer, requires_https=self._options.requires_https)
            entry.keys = parse_keys(await self._fetch(url))
            entry.fetched_at = now
        except AuthenticationFailedError as error:
            return error
        return None

    def _key(self, issuer: str, key_id: str | None) -> VerificationKey | None:
        entry = self._issuers.get(issuer)
        keys = {} if entry is None else entry.keys
        if key_id is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(key_id)


def keys_url(metadata: bytes, issuer: str, *, requires_https: bool) -> str:
    """Return the URL of the keys from the metadata of an issuer; raises AuthenticationFailedError."""
    found = _json_object(metadata)
    url = found.get("jwks_uri")
    if found.get("issuer") != issuer or not isinstance(url, str):
        message = "the metadata of the issuer are not those of this issuer"
        raise AuthenticationFailedError(message, AuthenticationFailure.ISSUER)
    if requires_https and not url.lower().startswith("https://"):
        message = "the issuer publishes its keys without TLS"
        raise AuthenticationFailedError(message, AuthenticationFailure.ISSUER)
    return url


def parse_keys(data: bytes) -> dict[str, VerificationKey]:
    """Return the usable keys of a key set by their ids; raises AuthenticationFailedError if it is none."""
    listed = _json_object(data).get("keys")
    if not isinstance(listed, list):
        message = "the issuer publishes no key set"
        raise AuthenticationFailedError(message, AuthenticationFailure.ISSUER)
    keys = {}
    for number, each in enumerate(listed[:KEYS_MAX]):
        found = _usable(each)
        if found is not None:
            key_id = each.get("kid")
            keys[key_id if isinstance(key_id, str) else f"\0{number}"] = found
    return keys


def _usable(document: object) -> VerificationKey | None:
    """Return a public key that signs tokens; None for any other key."""
    if (
        not isinstance(document, dict)
        or document.get("use", "sig") != "sig"
        or document.get("kty") not in ("RSA", "EC")
    ):
        return None
    try:
        found = verification_key(jwt.PyJWK(document).key)
    except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError):
        return None
    if found is None:
        return None
    algorithm = document.get("alg")
    return found.only(_ALGORITHMS if algorithm is None else _ALGORITHMS & {algorithm})


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        message = "the issuer does not answer with a JSON object"
        raise AuthenticationFailedError(message, AuthenticationFailure.ISSUER)
    return found
