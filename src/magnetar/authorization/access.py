"""Decisions about clients of one broker, from its settings and the present metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.authorization.decisions import Refusal, Rules, State, refusal

if TYPE_CHECKING:
    from magnetar.authorization.needs import Need, Resource
    from magnetar.metadata.resources import Resources
    from magnetar.security.principal import Principal

log = structlog.get_logger(__name__)


class Access:
    """The permissions of roles. Every question is answered from memory."""

    def __init__(self, rules: Rules, resources: Resources) -> None:
        """Decide by ``rules`` about what ``resources`` has."""
        self._rules = rules
        self._tenants = resources.tenants
        self._namespaces = resources.namespaces

    def refusal(self, need: Need, resource: Resource, principal: Principal, address: str = "") -> Refusal | None:
        """Return why the principal may not do what has the ``need``, which is logged; None if it may.

        ``address`` is that of the client.
        """
        state = State(
            self._tenants.get(resource.tenant) if resource.tenant else None,
            self._namespaces.get(resource.namespace) if resource.namespace is not None else None,
        )
        refused = refusal(need, resource, principal, state, self._rules)
        if refused is not None:
            log.warning(
                "not_authorized",
                address=address,
                role=principal.role,
                original_role=principal.original,
                operation=need.operation or need.scope.value,
                resource=str(resource.topic or resource.namespace or resource.tenant or resource.cluster or ""),
                subscription=resource.subscription,
            )
        return refused
