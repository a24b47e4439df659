"""Settings of authorization."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pydantic import BaseModel, Field, field_validator

from magnetar.authorization.decisions import ALL_CLUSTERS
from magnetar.base.names import is_named_entity


class AuthorizationSettings(BaseModel):
    """Permissions of roles."""

    authorizationEnabled: bool = Field(
        default=False,
        description="Whether a role may do only what it is permitted to; needs authenticationEnabled. Otherwise each "
        "client may do everything.",
    )
    superUserRoles: str = Field("", description="Roles that may do everything, separated by commas.")
    authorizationAllowWildcardsMatching: bool = Field(
        default=False,
        description="Whether permissions may be granted to `prefix*` and `*suffix`: all roles that begin or end so.",
    )
    replicatorRoles: str = Field(
        "",
        description="Roles that replicate for clusters, as `role=cluster`, separated by commas; `role=*`: for all. A "
        "superuser may, too.",
    )

    @field_validator("replicatorRoles")
    @classmethod
    def _binds_roles_to_clusters(cls, text: str) -> str:
        replicators_in(text)
        return text


def replicators_in(text: str) -> dict[str, frozenset[str]]:
    """Return the clusters of each role of ``replicatorRoles``; raises ValueError for an invalid text."""
    found: dict[str, frozenset[str]] = {}
    for part in names_in(text):
        role, _, cluster = part.rpartition("=")
        if not role or (cluster != ALL_CLUSTERS and not is_named_entity(cluster)):
            message = f"{part!r} is not of the form role=cluster or role=*"
            raise ValueError(message)
        found[role] = found.get(role, frozenset()) | {cluster}
    return found


def names_in(text: str) -> list[str]:
    """Return the names in a list that commas separate."""
    return [part.strip() for part in text.split(",") if part.strip()]
