"""The user's profiles: clusters by name with URLs and credentials, in a JSON file of the configuration directory."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from magnetar.base.errors import ConfigurationError
from magnetar.base.names import is_named_entity
from magnetar.security.credentials import NONE, Credentials

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Profile:
    """The URLs of one cluster, and the credentials for its admin API."""

    admin_url: str
    service_url: str | None = None
    credentials: Credentials = NONE

    def to_json(self) -> dict[str, str | None]:
        """Return the form of the file."""
        found = {"adminUrl": self.admin_url, "serviceUrl": self.service_url}
        given = {
            "authParams": self.credentials.auth_params,
            "tlsTrustCertsFilePath": self.credentials.tls_trust_certs_file_path,
            "tlsCertificateFilePath": self.credentials.tls_certificate_file_path,
            "tlsKeyFilePath": self.credentials.tls_key_file_path,
        }
        return found | {name: value for name, value in given.items() if value}

    def shown(self) -> dict[str, str | None]:
        """Return the form of the file without secrets."""
        found = self.to_json()
        is_secret = self.credentials.auth_params.startswith("token:")
        return found | ({"authParams": "token:..."} if is_secret else {})

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Parse the form of the file."""
        credentials = Credentials(
            auth_params=found.get("authParams") or "",
            tls_trust_certs_file_path=found.get("tlsTrustCertsFilePath") or "",
            tls_certificate_file_path=found.get("tlsCertificateFilePath") or "",
            tls_key_file_path=found.get("tlsKeyFilePath") or "",
        )
        return cls(str(found["adminUrl"]), found.get("serviceUrl"), credentials)


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles of a user."""

    by_name: Mapping[str, Profile] = field(default_factory=dict)
    current: str | None = None
    """The profile of commands that name no cluster."""

    def with_profile(self, name: str, profile: Profile) -> Profiles:
        """Return the profiles with one added or replaced; raises ConfigurationError for an invalid name or URL."""
        if not is_named_entity(name):
            message = f"invalid name of a profile: {name!r}\nhint: use letters, digits and -=:._"
            raise ConfigurationError(message)
        for url, schemes in ((profile.admin_url, ("http", "https")), (profile.service_url, ("pulsar", "pulsar+ssl"))):
            if url is not None and not url.startswith(tuple(f"{scheme}://" for scheme in schemes)):
                message = f"invalid URL {url!r}\nhint: write {schemes[0]}://host:port"
                raise ConfigurationError(message)
        return Profiles({**self.by_name, name: profile}, self.current)

    def without(self, name: str) -> Profiles:
        """Return the profiles without one; raises ConfigurationError if there is none of that name."""
        self.named(name)
        rest = {each: profile for each, profile in self.by_name.items() if each != name}
        return Profiles(rest, None if self.current == name else self.current)

    def using(self, name: str) -> Profiles:
        """Return the profiles with ``name`` as the current one; raises ConfigurationError if there is none."""
        self.named(name)
        return Profiles(self.by_name, name)

    def named(self, name: str) -> Profile:
        """Return a profile; raises ConfigurationError, with a hint, if there is none of that name."""
        found = self.by_name.get(name)
        if found is None:
            known = f"; there are {', '.join(self.by_name)}" if self.by_name else ""
            message = (
                f"no profile has the name {name}{known}\n"
                f"hint: add it with: magnetar profiles set {name} --admin-url http://host:port"
            )
            raise ConfigurationError(message)
        return found


class _NoHomeError(ConfigurationError):
    """The user has no home directory."""

    def __init__(self) -> None:
        super().__init__(
            "profiles need a configuration directory, and this user has no home\nhint: set XDG_CONFIG_HOME"
        )


def profiles_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file, below XDG_CONFIG_HOME or ``~/.config`` (XDG Base Directory Specification).

    Raises ConfigurationError if the user has neither.
    """
    configured = Path(environment.get("XDG_CONFIG_HOME", ""))
    if configured.is_absolute():  # the specification requires that relative paths are ignored
        base = configured
    else:
        try:
            base = Path.home() / ".config"
        except RuntimeError as error:
            raise _NoHomeError from error
    return base / "magnetar" / "profiles.json"


def load_profiles() -> Profiles:
    """Read the file; without a file there are no profiles. Raises ConfigurationError if it cannot be read."""
    try:
        file = profiles_file()
    except _NoHomeError:
        return Profiles()
    try:
        return _parsed(json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return Profiles()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        message = f"cannot read the profiles in {file}: {error!r}\nhint: correct the file, or delete it"
        raise ConfigurationError(message) from error


def save_profiles(profiles: Profiles) -> None:
    """Replace the file; raises ConfigurationError if that fails."""
    file = profiles_file()
    document = {
        "current": profiles.current,
        "profiles": {name: each.to_json() for name, each in profiles.by_name.items()},
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{os.getpid()}")
        new.touch(mode=0o600)  # it can contain tokens
        new.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        new.replace(file)
    except OSError as error:
        message = f"cannot write the profiles to {file}: {error.strerror}\nhint: check the permissions of the directory"
        raise ConfigurationError(message) from error


def _parsed(document: Any) -> Profiles:  # noqa: ANN401 - any JSON value
    by_name = {str(name): Profile.from_json(each) for name, each in document["profiles"].items()}
    current = document.get("current")
    if current is not None and current not in by_name:
        message = f"the current profile {current} is not among them"
        raise ValueError(message)
    return Profiles(by_name, current)
