"""The noun of the client for routes."""

from __future__ import annotations

from urllib.parse import quote

from magnetar.admin.nouns.noun import Json, Noun

_ROOT = "/admin/v2/magnetar/routes"


class Routes(Noun):
    """The clusters that serve the clients of tenants, namespaces and topics."""

    def all(self) -> list[Json]:
        """Return the routes, by scope."""
        return list(self._http.get(_ROOT))

    def get(self, scope: str) -> Json:
        """Return the route of exactly this scope."""
        return dict(self._http.get(_path(scope)))

    def get_or_deleted(self, scope: str) -> Json:
        """Return the route of exactly this scope; a deleted one has no cluster. Refused with 404 if there was none."""
        return dict(self._http.get(_path(scope), deleted="true"))

    def set(self, scope: str, cluster: str, *, epoch: int | None = None) -> Json:
        """Set the route and return it.

        With ``epoch``, refused with 409 if that is not the epoch of the route, which may be a deleted one; 0: none.
        """
        new = {"cluster": cluster} | ({} if epoch is None else {"epoch": epoch})
        return dict(self._http.send("PUT", _path(scope), json=new).json())

    def delete(self, scope: str, *, epoch: int | None = None) -> None:
        """Delete the route, so that a less specific one counts; ``epoch`` as in ``set``."""
        self._http.delete(_path(scope), **({} if epoch is None else {"epoch": epoch}))


def _path(scope: str) -> str:
    return f"{_ROOT}/{quote(scope, safe='')}"
