"""The cluster that a command is sent to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from magnetar.base.errors import ConfigurationError
from magnetar.cli.global_options import ADMIN_URL_VARIABLE, CLUSTER_VARIABLE
from magnetar.cli.profile_store import load_profiles
from magnetar.security.client_conf import credentials_in
from magnetar.security.credentials import NONE, Credentials

DEFAULT_ADMIN_URL = "http://localhost:8080"


@dataclass(frozen=True, slots=True)
class Target:
    """One cluster."""

    admin_url: str
    profile: str | None = None
    """Its profile, unless the URL was given."""
    options: str = ""
    """Options that select this cluster in a further command, after a space; empty if none are needed."""
    credentials: Credentials = NONE

    def __str__(self) -> str:
        """Return the name and the URL."""
        return f"{self.profile} ({self.admin_url})" if self.profile else self.admin_url


def choose(context: Any, admin_url: str | None, profile: str | None) -> Target:  # noqa: ANN401 - typer's context
    """Return the cluster of a command: that of its options, else of the environment, else of the current profile.

    Without credentials in a profile, those of the client.conf in PULSAR_CLIENT_CONF are used, as by Pulsar's own tools.
    Raises ConfigurationError if options or variables contradict each other, if there is no such profile, or if the
    file cannot be used.
    """
    target = _chosen(context, admin_url, profile)
    return target if target.credentials != NONE else replace(target, credentials=credentials_in(""))


def _chosen(context: Any, admin_url: str | None, profile: str | None) -> Target:  # noqa: ANN401 - typer's context
    given = {"admin_url": admin_url, "profile": profile}
    sources = {name: context.get_parameter_source(name).name for name, value in given.items() if value is not None}
    explicit = [name for name, source in sources.items() if source == "COMMANDLINE"]
    if len(explicit or sources) > 1:
        names = "--admin-url and --cluster" if explicit else f"{ADMIN_URL_VARIABLE} and {CLUSTER_VARIABLE}"
        message = f"{names} are both given\nhint: give one of them"
        raise ConfigurationError(message)
    chosen = next(iter(explicit or sources), None)
    if chosen == "admin_url":
        assert admin_url is not None
        return Target(admin_url, options=f" --admin-url {admin_url}" if explicit else "")
    profiles = load_profiles()
    name = profile if chosen == "profile" else profiles.current
    if name is None:
        return Target(DEFAULT_ADMIN_URL)
    found = profiles.named(name)
    return Target(found.admin_url, name, f" --cluster {name}" if explicit else "", found.credentials)
