"""Decisions about clients of one broker, from its settings and the present metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.authorization.decisions import Refusal, Rules, State, refusal
from magnetar.security.audit import AuditEvent, Kind, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.authorization.needs import Need, Resource
    from magnetar.metadata.resources import Resources
    from magnetar.security.principal import Principal

log = structlog.get_logger(__name__)


class Access:
    """The permissions of roles. Every question is answered from memory."""

    def __init__(
        self, rules: Rules, resources: Resources, record: Callable[[AuditEvent], None] = lambda _: None
    ) -> None:
        """Decide by ``rules`` about what ``resources`` has; ``record`` gets each refusal."""
        self._rules = rules
        self._record = record
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
            operation = need.operation or need.scope.value
            name = str(resource.topic or resource.namespace or resource.tenant or resource.cluster or "")
            log.warning(
                "not_authorized",
                address=address,
                role=principal.role,
                original_role=principal.original,
                operation=operation,
                resource=name,
                subscription=resource.subscription,
            )
            reason = refused.subscription_reason or refused.reason
            self._record(
                AuditEvent(
                    Kind.AUTHORIZATION,
                    Result.DENIED,
                    f"{operation} {need.policy}".strip(),
                    name,
                    principal,
                    address,
                    resource.subscription,
                    reason=reason,
                )
            )
        return refused
