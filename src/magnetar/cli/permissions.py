"""The verbs for permissions, shared by namespaces and topics."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli.session import Session, change, command, names
from magnetar.metadata.policies import AuthAction

Owner = NamespaceName | TopicName
"""Owner of permissions; the noun of the command determines the type."""

_ACTIONS = get_args(AuthAction)

Role = Annotated[str, typer.Option("--role", help="The role's name.")]
Actions = Annotated[
    str, typer.Option("--actions", metavar="ACTIONS", help=f"Separated by commas: {', '.join(_ACTIONS)}.")
]


def permissions(session: Session, owner: Owner) -> None:
    """Show the permitted actions by role; those of a topic include those of its namespace."""
    session.fields(session.client.permissions.of(owner))


def grant_permission(session: Session, owner: Owner, role: Role, actions: Actions) -> None:
    """Permit a role some actions, instead of those before. They count if the brokers have authorizationEnabled."""
    wanted = names(actions)
    if not wanted or not set(wanted) <= set(_ACTIONS):
        message = f"{actions!r} is not a list of actions; they are {', '.join(_ACTIONS)}"
        raise typer.BadParameter(message)
    before = _of_role(session, owner, role)
    session.client.permissions.grant(owner, role, wanted)
    session.changed(owner, _field(role), before, _of_role(session, owner, role))


def revoke_permission(session: Session, owner: Owner, role: Role) -> None:
    """Revoke all permissions that a role was granted here. A topic's role keeps those for the namespace."""
    before = _of_role(session, owner, role)
    session.client.permissions.revoke(owner, role)
    session.changed(owner, _field(role), before, _of_role(session, owner, role))


def add_permission_verbs(app: typer.Typer, owner: object) -> None:
    """Add the verbs to a noun; ``owner`` is the annotation of their first argument."""
    command(app, "permissions", owner=owner)(permissions)
    change(app, "grant-permission", owner=owner)(grant_permission)
    change(app, "revoke-permission", owner=owner)(revoke_permission)


def _of_role(session: Session, owner: Owner, role: str) -> list[str] | None:
    return session.client.permissions.of(owner).get(role)


def _field(role: str) -> str:
    return f"permissions of role {role}"
