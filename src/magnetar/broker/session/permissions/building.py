"""The permissions that the configuration states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.authorization.access import Access
from magnetar.authorization.decisions import Rules
from magnetar.base.errors import ConfigurationError
from magnetar.broker.settings.sections.authorization import names_in, replicators_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.metadata.resources import Resources
    from magnetar.security.audit import AuditEvent


def access_of(
    config: BrokerConfig, resources: Resources, record: Callable[[AuditEvent], None] = lambda _: None
) -> Access | None:
    """Return the permissions of roles; None if each client may do everything. ``record`` gets each refusal.

    Raises ConfigurationError for authorization without authentication.
    """
    if not config.authorizationEnabled:
        return None
    if not config.authenticationEnabled:
        message = "authorizationEnabled=true needs authenticationEnabled=true\nhint: without it, clients have no roles"
        raise ConfigurationError(message)
    rules = Rules(
        super_users=frozenset(names_in(config.superUserRoles)),
        proxies=frozenset(names_in(config.proxyRoles)),
        replicators=replicators_in(config.replicatorRoles),
        allows_wildcards=config.authorizationAllowWildcardsMatching,
    )
    return Access(rules, resources, record)
