"""The page of the policies of namespaces and topics."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import BaseModel

from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.policies import broker_policies
from magnetar.metadata import effective
from magnetar.metadata.effective import EffectivePolicies
from magnetar.metadata.policy.table import Policy
from magnetar.metadata.policy.values import BacklogQuota
from reference.markdown import code, prose, table, value

if TYPE_CHECKING:
    from collections.abc import Iterator

_ABOUT = """\
A policy applies to all topics of a namespace, or to one topic. The policy of a topic overrides that of its namespace,
which overrides the broker's setting. The table shows the default of that setting. `GET` returns the value at its level,
`POST` (`PUT` for `schemaCompatibilityStrategy`) sets it, and `DELETE` removes it. With `?applied=true`, the `GET` of a
topic returns the value in effect. Backlog quotas are read at `backlogQuotaMap`. Namespace paths are below
`/admin/v2/namespaces/{tenant}/{namespace}`, topic paths below `/admin/v2/persistent/{tenant}/{namespace}/{topic}`.
`magnetar namespaces` and `magnetar topicPolicies` have commands for them, see [Command line](cli.md).
"""

_HEADS = ("policy", "path of a namespace", "path of a topic", "default", "meaning")

_AUTHORIZATION = """\
## Authorization

These policies have an effect with `authorizationEnabled` ([security](../guides/authorization.md)).
"""

_WITHOUT_EFFECT = """\
## Without effect

Magnetar has nothing that these policies of Apache Pulsar could change. They are stored and returned.
"""


def page() -> str:
    """Return a table of the policies, and one for the fields of each object."""
    defaults, texts = broker_policies(BrokerConfig()), _texts()
    rows, objects = [], []
    for name, paths, field in sorted(_effective(), key=lambda each: each[2].lower()):
        default = getattr(defaults, name)
        is_quotas = name == "backlog_quotas"
        shape = type(default) if isinstance(default, BaseModel) else BacklogQuota if is_quotas else None
        if shape is not None:
            objects.append((field, shape))
        shown = "see below" if shape is not None else code(value(default)) or "none"
        rows.append((code(field), *map(code, paths), shown, texts.get(name) or _first_sentence(shape)))
    sections = [f"## `{field}`\n\n{_fields_of(shape)}" for field, shape in objects]
    return "\n".join([_ABOUT, table(_HEADS, rows), *sections, *_further_sections()])


def _further_sections() -> Iterator[str]:
    heads = _HEADS[:3]
    yield _AUTHORIZATION
    yield _others((*heads, "meaning"), is_of_authorization=True)
    yield _WITHOUT_EFFECT
    yield _others((*heads, "meaning in Apache Pulsar"), is_of_authorization=False)


def _effective() -> Iterator[tuple[str, tuple[str, str], str]]:
    """Yield the field of EffectivePolicies, the paths and the name of each policy with an effect."""
    yield "backlog_quotas", ("backlogQuota", "backlogQuota"), "backLogQuotaMap"
    for policy in Policy:
        if policy.value.effective is not None:
            yield policy.value.effective, _paths(policy), _name(policy)


def _others(heads: tuple[str, ...], *, is_of_authorization: bool) -> str:
    rows = [
        (code(_name(policy)), *map(code, _paths(policy)), policy.value.about)
        for policy in Policy
        if policy.value.is_of_authorization == is_of_authorization and policy.value.effective is None
    ]
    return table(heads, sorted(rows))


def _paths(policy: Policy) -> tuple[str, str]:
    levels = (policy.namespace, policy.topic)
    of_namespace, of_topic = ("" if level is None else level.path for level in levels)
    return of_namespace, of_topic


def _name(policy: Policy) -> str:
    level = policy.topic or policy.namespace
    assert level is not None
    return level.field


def _texts() -> dict[str, str]:
    """Return the docstrings of the fields of EffectivePolicies."""
    (body,) = (
        node.body
        for node in ast.walk(ast.parse(inspect.getsource(effective)))
        if isinstance(node, ast.ClassDef) and node.name == EffectivePolicies.__name__
    )
    return {
        field.target.id: prose(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _first_sentence(shape: type | None) -> str:
    return "" if shape is None else prose(shape.__doc__ or "").split("\n\n")[0]


def _fields_of(shape: type[BaseModel]) -> str:
    about = prose(shape.__doc__ or "")
    rows = [
        (code(name), "required" if field.is_required() else code(value(field.default)))
        for name, field in shape.model_fields.items()
    ]
    return f"{about}\n\n{table(('field', 'default'), rows)}"
