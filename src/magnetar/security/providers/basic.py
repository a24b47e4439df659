"""``AuthenticationProviderBasic``: names and passwords of a file that ``htpasswd`` has written."""

from __future__ import annotations

import asyncio
import base64
import hmac
import secrets
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from passlib.context import CryptContext

from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure, ConfigurationError
from magnetar.base.limits import Limit
from magnetar.security.files import read_bytes
from magnetar.security.principal import Principal
from magnetar.security.providers.keys import read_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.security.providers.proof import Proof

METHOD: Final = "basic"

PENDING_MAX: Final = 200
"""Maximum number of passwords that wait to be checked; one takes up to a third of a second (bcrypt, 12 rounds)."""

_SCHEMES: Final = ("apr_md5_crypt", "bcrypt", "ldap_sha1", "sha256_crypt", "sha512_crypt", "des_crypt")
"""The hashes of ``htpasswd``: MD5 (-m), bcrypt (-B), SHA-1 (-s), SHA-256 (-2), SHA-512 (-5) and crypt (-d)."""

_HASHES: Final = CryptContext(schemes=list(_SCHEMES))

_WRONG: Final = "unknown user or invalid password"


def read_users(text: str) -> dict[str, str]:
    """Return the hashes of passwords by user, from the value of ``basicAuthConf``; raises ConfigurationError.

    The value is the path or the URL of a file, or its content in base64 or in a URL ``data:``.
    """
    users: dict[str, str] = {}
    for number, line in enumerate(_content(text).decode(errors="replace").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        user, separator, hashed = line.strip().partition(":")
        if not separator or not user or user in users or _HASHES.identify(hashed) is None:
            message = (
                f"basicAuthConf: line {number} is not a new user with a hash of a password\n"
                "hint: write the file with `htpasswd -B`; hashes may also be MD5, SHA or crypt, but not plain text"
            )
            raise ConfigurationError(message)
        users[user] = hashed
    if not users:
        message = "basicAuthConf has no users\nhint: write the file with `htpasswd -B`"
        raise ConfigurationError(message)
    return users


def _content(text: str) -> bytes:
    if text.startswith(("file:", "data:")):
        return read_key(text, "basicAuthConf")
    try:
        return read_bytes(text)  # a path comes before base64, as in Pulsar
    except ConfigurationError:
        pass
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        message = (
            "basicAuthConf is neither the path of a file that can be read nor base64\n"
            "hint: write the path of a file of `htpasswd -B`"
        )
        raise ConfigurationError(message) from None


class BasicProvider:
    """Checks passwords on a thread of its own, because a check takes long by intention.

    The last right password of each user is remembered as a keyed hash, so that a client with many requests is checked
    once.
    """

    method = METHOD

    def __init__(self, users: Mapping[str, str]) -> None:
        """Check passwords against the hashes of ``users``."""
        self._users = users
        self._unknown = next(iter(users.values()))
        """Checked for unknown users, so that the time does not reveal them."""
        self._key = secrets.token_bytes(32)
        self._known: dict[str, bytes] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="basic-authentication")
        self._pending = 0

    async def authenticate(self, proof: Proof, now: float) -> Principal:
        """See Provider."""
        del now  # passwords do not expire
        name, separator, password = proof.data.partition(b":")
        user = name.decode(errors="replace")
        if not separator:
            message = "the data are not a name and a password"
            raise AuthenticationFailedError(message)
        digest = blake2b(proof.data, key=self._key, digest_size=32).digest()
        if not hmac.compare_digest(self._known.get(user, b""), digest):
            await self._check(user, password)
            self._known[user] = digest
        return Principal(user, METHOD)

    def close(self) -> None:
        """See Provider."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _check(self, user: str, password: bytes) -> None:
        if self._pending >= PENDING_MAX:
            message = f"too many passwords wait to be checked ({Limit.PENDING_PASSWORDS})"
            raise AuthenticationFailedError(message, AuthenticationFailure.LIMIT, Limit.PENDING_PASSWORDS)
        check = partial(_matches, password, self._users.get(user, self._unknown))
        self._pending += 1
        try:
            is_right = await asyncio.get_running_loop().run_in_executor(self._thread, check)
        finally:
            self._pending -= 1
        if not is_right or user not in self._users:
            raise AuthenticationFailedError(_WRONG)


def _matches(password: bytes, hashed: str) -> bool:
    try:
        return bool(_HASHES.verify(password, hashed))
    except ValueError:  # a password that the kind of hash does not allow, such as more than 72 bytes for bcrypt
        return False
