"""The noun of the client for the metadata synchronizer."""

from __future__ import annotations

from urllib.parse import quote

from magnetar.admin.nouns.noun import Json, Noun

_ROOT = "/admin/v2/metadata-sync"


class MetadataSync(Noun):
    """The metadata synchronizer of the cluster."""

    def status(self) -> Json:
        """Return its state."""
        return dict(self._http.get(f"{_ROOT}/status"))

    def refused(self) -> list[Json]:
        """Return the newest refused events, the oldest first."""
        return list(self._http.get(f"{_ROOT}/refused"))

    def local(self) -> list[Json]:
        """Return what is local in this cluster although its rules do not say so."""
        return list(self._http.get(f"{_ROOT}/local"))

    def unknown(self) -> list[Json]:
        """Return the fields that the version of the cluster does not know."""
        return list(self._http.get(f"{_ROOT}/unknown"))

    def remove_local(self, resource: str, field: str = "") -> None:
        """Give a resource, or one of its fields, the values of the other clusters."""
        self._http.delete(f"{_ROOT}/local", resource=resource, field=field)

    def stranded(self) -> dict[str, Json]:
        """Return the topics whose namespace does not exist, by name."""
        return dict(self._http.get(f"{_ROOT}/stranded"))

    def delete_stranded(self, topic: str) -> None:
        """Delete a topic whose namespace does not exist, with its messages."""
        self._http.delete(f"{_ROOT}/stranded/{quote(topic, safe='')}")

    def events(self) -> list[Json]:
        """Return the events that a snapshot would publish now."""
        return list(self._http.get(f"{_ROOT}/snapshot")["events"])

    def preview(self, event: Json) -> list[Json]:
        """Return what an event would change, without a change."""
        return list(self._http.send("POST", f"{_ROOT}/preview", json=event).json())

    def snapshot(self) -> None:
        """Publish all metadata to the event topic."""
        self._http.post(f"{_ROOT}/snapshot")

    def history(self, resource: str) -> list[Json]:
        """Return the newest edits of a tenant, a namespace, or a topic and its policies, the oldest first."""
        return list(self._http.get(f"{_ROOT}/history/{quote(resource, safe='')}"))

    def undo(self, resource: str, edit: str | None = None, *, force: bool = False) -> Json:
        """Restore the former values of what an edit changed, by default the newest; return them.

        ``force`` also replaces the values of later edits.
        """
        path = f"{_ROOT}/history/{quote(resource, safe='')}/{quote(edit or 'newest', safe='')}/undo"
        return dict(self._http.send("POST", path, params={"force": str(force).lower()}).json())
