"""The documents of resources: their models, the form in which they are stored, and their defaults. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from magnetar.metadata.policies import PartitionedTopicMetadata, Policies, TenantInfo, TopicPolicies
from magnetar.metadata.routes.document import StoredRoute
from magnetar.metasync.units import ResourceType, document_of, escaped, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.metadata.policy.document import Document as Model
    from magnetar.metasync.units import Document

MODELS: dict[ResourceType, type[Model]] = {
    ResourceType.TENANTS: TenantInfo,
    ResourceType.NAMESPACES: Policies,
    ResourceType.TOPICS: PartitionedTopicMetadata,
    ResourceType.TOPIC_POLICIES: TopicPolicies,
    ResourceType.ROUTES: StoredRoute,
}
"""The model of the document of each kind."""

DEFAULTS = {
    kind: units_of(kind, model.model_construct().model_dump(mode="json", exclude_none=True))
    for kind, model in MODELS.items()
}
"""The units of a document without values of its own. A creation does not edit them.

Otherwise the namespace that a new cluster creates at its first start would reset the policies of all others.
"""


def own_units(kind: ResourceType, document: Document) -> dict[str, Any]:
    """Return the units of a document that differ from the defaults."""
    defaults = DEFAULTS[kind]
    return {unit: value for unit, value in units_of(kind, document).items() if value != defaults.get(unit)}


def changed_units(kind: ResourceType, before: Document, after: Document) -> list[str]:
    """Return the units with different values. Earlier versions stored no defaults of fields that they did not know."""
    defaults = DEFAULTS[kind]
    old, new = defaults | units_of(kind, before), defaults | units_of(kind, after)
    return [unit for unit in {**old, **new} if old.get(unit) != new.get(unit)]


def normal(kind: ResourceType, document: Document | None) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Return a document in the form in which it is stored, with the defaults of its fields; raises ValueError."""
    return None if document is None else MODELS[kind].model_validate(document).to_json()


def document_with(kind: ResourceType, units: Mapping[str, Any]) -> Document:
    """Return the document with these units in the form of ``normal``; raises ValueError."""
    document: Document = normal(kind, document_of(kind, units))
    return document


def unknown_fields(kind: ResourceType, document: Document) -> dict[str, Any]:
    """Return the values of the fields that this version does not know, by pointer; also of those inside other fields.

    A document of a later version has them. They are kept without an effect. Raises ValueError if it is not valid.
    """
    return dict(_unknown("", MODELS[kind].model_validate(document)))


def _unknown(pointer: str, value: object) -> Iterator[tuple[str, Any]]:
    match value:
        case BaseModel():
            for name, extra in (value.model_extra or {}).items():
                yield f"{pointer}/{escaped(name)}", extra
            for name in type(value).model_fields:
                yield from _unknown(f"{pointer}/{escaped(name)}", getattr(value, name))
        case dict():
            for key, each in value.items():
                yield from _unknown(f"{pointer}/{escaped(str(key))}", each)
        case list():
            for index, each in enumerate(value):
                yield from _unknown(f"{pointer}/{index}", each)
