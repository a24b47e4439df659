"""The names of clusters in the target for those in the source. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.metasync.comparison import LISTS_OF_CLUSTERS, renamed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.admin.cluster_metadata.document import ClusterMetadata
    from magnetar.metasync.places import Resource
    from magnetar.metasync.units import Document

_SHOWN_MAX = 3
"""Maximum number of resources that the error names for a cluster."""


class ClusterNames:
    """Translates the names of clusters in documents of the source."""

    def __init__(
        self,
        source: ClusterMetadata,
        target: ClusterMetadata,
        given: Mapping[str, Sequence[str]],
        *,
        registers: bool = False,
    ) -> None:
        """Use the ``given`` names; the source's own cluster is the target's, and other names stay.

        ``registers``: clusters that the target does not know are registered with the addresses that the source knows.
        """
        self._registers = registers
        self._own = target.cluster
        self._names = {source.cluster: [target.cluster], **given}
        self._known = target.clusters.keys()

    def of(self, names: Sequence[str]) -> list[str]:
        """Return the names in the target."""
        return list(dict.fromkeys(each for name in names for each in self._names.get(name, [name])))

    def translated(self, source: ClusterMetadata) -> dict[Resource, Document]:
        """Return the documents of the source with the names in the target.

        Rates of the source's own cluster are those of the target's, whatever its other names are. Rates of another
        cluster keep its name if it has no counterpart, or several.
        """
        single = {name: names[0] for name, names in self._names.items() if len(names) == 1}
        found = renamed(source.resources, single | {source.cluster: self._own})
        for resource, document in source.resources.items():
            for field in LISTS_OF_CLUSTERS[resource.kind]:
                if document.get(field):
                    found[resource] = found[resource] | {field: self.of(document[field])}
        return found

    def to_register(self, source: ClusterMetadata) -> dict[str, Document]:
        """Return the ClusterData of the clusters to register in the target."""
        names = sorted(self._unknown(source)) if self._registers else ()
        return {name: source.clusters[name] for name in names if name in source.clusters}

    def require_known(self, source: ClusterMetadata) -> None:
        """Raise ConfigurationError, with a hint, if a document names a cluster that the target will not know."""
        registered = self.to_register(source)
        unknown = {name: users for name, users in self._unknown(source).items() if name not in registered}
        if not unknown:
            return
        lines = [f"\n  {name}: {_shown(sorted(users))}" for name, users in sorted(unknown.items())]
        message = (
            f"the source names clusters that the target does not know:{''.join(lines)}\n"
            "hint: name other clusters with --rename NAME=OTHER, leave one out with --rename NAME=, or copy their "
            "addresses with --register-clusters"
        )
        raise ConfigurationError(message)

    def _unknown(self, source: ClusterMetadata) -> dict[str, list[str]]:
        """Return the clusters that the target does not know, with the resources that name them."""
        found: dict[str, list[str]] = {}
        for resource, document in source.resources.items():
            named = [each for field in LISTS_OF_CLUSTERS[resource.kind] for each in document.get(field) or ()]
            for name in self.of(named):
                if name not in self._known:
                    found.setdefault(name, []).append(resource.name)
        return found


def _shown(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN_MAX
    return ", ".join(names[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
