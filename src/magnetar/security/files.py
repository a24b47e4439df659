"""Files with settings and secrets."""

from __future__ import annotations

from pathlib import Path

from magnetar.base.errors import ConfigurationError


def read_text(path: str, what: str = "") -> str:
    """Return the text of a file; raises ConfigurationError with its path, after a word for ``what`` it has."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        message = f"cannot read {what}{path}: {reason}"
        raise ConfigurationError(message) from error


def read_bytes(path: str, what: str = "") -> bytes:
    """Return the content of a file; raises ConfigurationError with its path, after a word for ``what`` it has."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path is not valid"
        message = f"cannot read {what}{path}: {reason}"
        raise ConfigurationError(message) from error
