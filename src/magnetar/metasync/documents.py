"""The documents of resources: their models, the form in which they are stored, and their defaults. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.metadata.policies import PartitionedTopicMetadata, Policies, TenantInfo, TopicPolicies
from magnetar.metasync.units import ResourceType, units_of

if TYPE_CHECKING:
    from magnetar.metadata.policy.document import Document as Model
    from magnetar.metasync.units import Document

MODELS: dict[ResourceType, type[Model]] = {
    ResourceType.TENANTS: TenantInfo,
    ResourceType.NAMESPACES: Policies,
    ResourceType.TOPICS: PartitionedTopicMetadata,
    ResourceType.TOPIC_POLICIES: TopicPolicies,
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


def normal(kind: ResourceType, document: Document | None) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Return a document in the form in which it is stored, with the defaults of its fields; raises ValueError."""
    return None if document is None else MODELS[kind].model_validate(document).to_json()
