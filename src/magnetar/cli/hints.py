"""Hints for refused requests: the next command."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from magnetar.base.errors import ClusterUnreachableError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli.failures import ExitCode, FailedError, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.errors import AdminError
    from magnetar.cli.target import Target

UNAUTHENTICATED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
"""Statuses of refusals for want of valid credentials; see CREDENTIALS_HINT."""

_NEXT: Final = (
    # status, words of the reason, and the next command with its purpose; the first row that applies
    (404, "is kept", "list the edits with", "metadata history {resource}"),
    (404, "no route", "list the routes with", "routes list"),
    (404, "subscription", "list the subscriptions with", "topics subscriptions {topic}"),
    (404, "tenant", "list the tenants with", "tenants list"),
    (404, "cluster", "list the registered clusters with", "clusters list"),
    (404, "topic", "list the topics with", "topics list {namespace}"),
    (404, "namespace", "list the namespaces with", "namespaces list {tenant}"),
    (404, "schema", "show the topic with", "topics stats {topic}"),
    (409, "subscription already exist", "show it with", "subscriptions stats {topic}"),
    (409, "later edits", "replace their values with", "metadata undo {resource} {edit} --force"),
    (409, "topic already exist", "show it with", "topics stats {topic}"),
    (409, "namespace already exist", "show it with", "namespaces policies {namespace}"),
    (409, "tenant already exist", "show it with", "tenants get {tenant}"),
    (409, "cluster already exist", "show it with", "clusters get {cluster}"),
    (409, "active namespaces", "list the namespaces with", "namespaces list {tenant}"),
    (409, "non empty namespace", "list the topics with", "topics list {namespace}"),
    (409, "partitioned topic", "delete it with", "topics delete-partitioned-topic {topic}"),
    (409, "schema", "show the registered ones with", "schemas get {topic} --all-version"),
    (412, "active connected consumers", "disconnect them with", "topics unsubscribe {topic} -s {subscription} --force"),
    (412, "active producers", "show its clients with", "topics stats {topic} -o json"),
    (412, "not registered", "register its addresses with", "clusters create {cluster} --url URL --broker-url URL"),
    (409, "changed meanwhile", "show it with", "routes get {scope}"),
    (412, "replication clusters", "leave one cluster with", "namespaces set-clusters {namespace} --clusters CLUSTER"),
    (422, "replicated on clusters", "leave one cluster with", "namespaces set-clusters {namespace} --clusters CLUSTER"),
    (412, "local cluster", "show its clusters with", "namespaces get-clusters {namespace}"),
    (412, "clusters do not exist", "list the registered clusters with", "clusters list"),
    (412, "retention", "show the retention with", "namespaces get-retention {namespace}"),
)


CREDENTIALS_HINT = "a profile can have a token: magnetar profiles set NAME --admin-url URL --auth-params file:///path"
"""The next step after a cluster refused a request without valid credentials."""


def refusal_hint(error: AdminError, target: Target, arguments: Mapping[str, Any]) -> str:
    """Return the URL, the status, and the next command; ``arguments`` are those of the refused command."""
    answered = f"{target} answered {error.status.value} {error.status.phrase}"
    if error.status in UNAUTHENTICATED:
        return f"{answered}; PULSAR_CLIENT_CONF can name a client.conf with credentials, and {CREDENTIALS_HINT}"
    reason = str(error).lower()
    names = _names(arguments)
    for status, words, purpose, line in _NEXT:
        if status == error.status and words in reason:
            return f"{answered}; {purpose}: magnetar {line.format_map(names)}{target.options}"
    return answered


def failure_elsewhere(error: AdminError | ClusterUnreachableError, url: str, who: str, named_by: str) -> FailedError:
    """Return the failure of another cluster than the one of the command; ``named_by`` is the hint to its address."""
    if isinstance(error, ClusterUnreachableError):
        return FailedError(Failure(ExitCode.UNREACHABLE, str(error), named_by, url))
    hint = f"{who} {url} answered {error.status.value} {error.status.phrase}"
    if error.status in UNAUTHENTICATED:
        hint += f"; {CREDENTIALS_HINT}"
    return FailedError(Failure(ExitCode.FAILED, str(error), hint, url, error.status.value))


def _names(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of objects in the arguments; a missing one is a word in upper case."""
    topic = next((each for each in arguments.values() if isinstance(each, TopicName)), None)
    found = next((each for each in arguments.values() if isinstance(each, NamespaceName)), None)
    namespace = topic.namespace_name if topic is not None else found
    names = {
        "subscription": None,
        "cluster": None,
        "tenant": None,
        "edit": None,
        "scope": None,
        **arguments,
        "topic": topic,
        "namespace": namespace,
    }
    if namespace is not None:
        names["tenant"] = namespace.tenant
    return {name: name.upper() if value is None else value for name, value in names.items()}
