"""``magnetar tokens``: keys and tokens for authentication, with the options of ``pulsar tokens``."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from magnetar.base.errors import AuthenticationFailedError, ConfigurationError
from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.output import show_lines
from magnetar.cli.units import seconds
from magnetar.security.files import read_text
from magnetar.security.providers.issuing import new_key_pair, new_secret_key, new_token
from magnetar.security.providers.keys import private_key, public_key, read_key, secret_key
from magnetar.security.providers.tokens import check_times, verified_claims

app = typer.Typer(help="Keys and tokens for authentication. No cluster is contacted.", no_args_is_help=True)

_YEAR_S = 365 * 86_400

Algorithm = Literal[
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"
]

SecretKey = Annotated[
    str, typer.Option("--secret-key", "-sk", help="Secret key: file:///path, data:;base64,KEY, or base64.")
]
Stdin = Annotated[bool, typer.Option("--stdin", "-i", help="Read the token from standard input.")]
TokenFile = Annotated[str, typer.Option("--token-file", "-f", help="Read the token from a file.")]
TokenText = Annotated[
    str | None, typer.Argument(metavar="[TOKEN]", help="The token; others can see it in the list of processes.")
]


@app.callback()
def _group() -> None:
    """Keys and tokens for authentication. No cluster is contacted."""


@app.command("create-secret-key")
def create_secret_key(
    algorithm: Annotated[
        Algorithm, typer.Option("--signature-algorithm", "-a", help="Algorithm of the tokens.")
    ] = "HS256",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New file for the key; otherwise it is printed.")
    ] = None,
    *,
    as_base64: Annotated[bool, typer.Option("--base64", "-b", help="Write the key in base64.")] = False,
) -> None:
    """Create a secret key, which signs and verifies tokens: tokenSecretKey of brokers."""
    key = new_secret_key(algorithm)
    data = base64.b64encode(key) if as_base64 else key
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        _write_new(output, data, mode=0o600)


@app.command("create-key-pair")
def create_key_pair(
    private: Annotated[Path, typer.Option("--output-private-key", help="New file for the private key.")],
    public: Annotated[Path, typer.Option("--output-public-key", help="New file for the public key.")],
    algorithm: Annotated[
        Algorithm, typer.Option("--signature-algorithm", "-a", help="Algorithm of the tokens.")
    ] = "RS256",
) -> None:
    """Create a private key, which signs tokens, and a public one, which verifies them: tokenPublicKey of brokers."""
    keys = new_key_pair(algorithm)
    _write_new(private, keys[0], mode=0o600)
    _write_new(public, keys[1], mode=0o644)


@app.command("create")
def create(
    subject: Annotated[str, typer.Option("--subject", "-s", help="Role that the token proves.")],
    expiry_time: Annotated[
        str,
        typer.Option("--expiry-time", "-e", help="Time until it expires, such as 30m, 1h, 3d or 1y; default: never."),
    ] = "",
    secret: SecretKey = "",
    private: Annotated[
        str, typer.Option("--private-key", "-pk", help="Private key: file:///path, data:;base64,KEY, or base64.")
    ] = "",
    algorithm: Annotated[
        Algorithm | None,
        typer.Option("--signature-algorithm", "-a", help="Algorithm; default: one that fits the key."),
    ] = None,
    headers: Annotated[
        str, typer.Option("--headers", "-hs", help="Further headers of the token: name=value,name=value.")
    ] = "",
) -> None:
    """Print a new token, signed with a secret or a private key."""
    if bool(secret) == bool(private):
        message = "give one of --secret-key and --private-key"
        raise typer.BadParameter(message)
    key = read_key(secret or private, "--secret-key" if secret else "--private-key")
    token = new_token(
        key if secret else private_key(key, "--private-key"),
        subject,
        algorithm=algorithm,
        expires_at=int(time.time()) + _lifetime(expiry_time) if expiry_time else None,
        headers=_headers(headers),
    )
    show_lines([token])


@app.command("show")
def show(token: TokenText = None, *, stdin: Stdin = False, file: TokenFile = "") -> None:
    """Show the header and the claims of a token, which is not checked."""
    parts = _token(token, file, stdin=stdin).split(".")
    try:
        header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in parts[:2])
    except (ValueError, RecursionError):
        message = "this is no token"
        raise ConfigurationError(message) from None
    show_lines([json.dumps(header), "---", json.dumps(claims)])


@app.command("validate")
def validate(
    token: TokenText = None,
    *,
    stdin: Stdin = False,
    file: TokenFile = "",
    secret: SecretKey = "",
    public: Annotated[
        str, typer.Option("--public-key", "-pk", help="Public key: file:///path, data:;base64,KEY, or base64.")
    ] = "",
    algorithm: Annotated[
        Algorithm, typer.Option("--signature-algorithm", "-a", help="Algorithm of the public key.")
    ] = "RS256",
) -> None:
    """Show the claims of a token, as a broker with the key would accept it; otherwise fail with the reason."""
    if bool(secret) == bool(public):
        message = "give one of --secret-key and --public-key"
        raise typer.BadParameter(message)
    if secret:
        key = secret_key(read_key(secret, "--secret-key"), "--secret-key")
    else:
        key = public_key(read_key(public, "--public-key"), algorithm, "--public-key")
    try:
        claims = verified_claims(_token(token, file, stdin=stdin).encode(), key)
        check_times(claims, time.time(), 0.0)
    except AuthenticationFailedError as error:
        raise FailedError(Failure(ExitCode.FAILED, str(error))) from None
    show_lines([json.dumps(claims)])


def _token(token: str | None, file: str, *, stdin: bool) -> str:
    """Return the token from the one place that is given, or from the variable TOKEN, as for Pulsar."""
    if [token is not None, bool(file), stdin].count(True) > 1:
        message = "give only one of TOKEN, --stdin and --token-file"
        raise typer.BadParameter(message)
    if stdin:
        return sys.stdin.readline().strip()
    if file:
        return read_text(file, "the token in ").strip()
    found = token if token is not None else os.environ.get("TOKEN")
    if not found:
        message = "give the token, --stdin or --token-file, or set the variable TOKEN"
        raise typer.BadParameter(message)
    return found.strip()


def _lifetime(text: str) -> int:
    number = text[:-1]
    return int(number) * _YEAR_S if text.endswith("y") and number.isdecimal() else seconds(text)


def _headers(text: str) -> dict[str, str]:
    parts = [part.partition("=") for part in text.split(",") if part]
    if not all(name and equals for name, equals, _ in parts):
        message = f"{text!r} is not of the form name=value,name=value"
        raise typer.BadParameter(message)
    return {name.strip(): value for name, _, value in parts}


def _write_new(path: Path, data: bytes, *, mode: int) -> None:
    """Write a file that does not exist yet: an overwritten key makes all its tokens worthless."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
    except FileExistsError:
        message = f"{path} exists already\nhint: name a new file, or delete this one if nothing uses its key"
        raise ConfigurationError(message) from None
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise ConfigurationError(message) from error
