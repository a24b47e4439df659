"""Clusters of a command of the pipeline: names with admin URLs, or profiles."""

from __future__ import annotations

from magnetar.admin.credentials import NONE
from magnetar.base.errors import ConfigurationError
from magnetar.cli.profile_store import Profiles, load_profiles
from magnetar.cli.session import names


def with_urls(clusters: str) -> str:
    """Return ``clusters`` with the admin URL of each name that is given alone, from its profile.

    Raises ConfigurationError if there is no such profile, or if it has credentials, which the pipeline does not send.
    """
    parts = names(clusters)
    profiles = load_profiles() if any("=" not in part for part in parts) else Profiles()
    return ",".join(part if "=" in part else f"{part}={_url_of(part, profiles)}" for part in parts)


def _url_of(name: str, profiles: Profiles) -> str:
    profile = profiles.named(name)
    if profile.credentials != NONE:
        message = f"the profile {name} has credentials, and the pipeline sends none\nhint: give NAME=URL instead"
        raise ConfigurationError(message)
    return profile.admin_url
