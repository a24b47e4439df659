"""The broker URLs of the clusters, read from admin ports at the start of a driver and periodically afterwards."""

from __future__ import annotations

import contextlib
import re
import threading
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.base.errors import AdminError, ClusterUnreachableError, ConfigurationError, MagnetarError
from magnetar.pipeline import limits
from magnetar.pipeline.options import ClusterAddress
from magnetar.pipeline.watch import Watch, admin_client

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.admin.client import AdminClient

_NAME_AND_URL = re.compile(r"(.+?)=(https?://.+)", re.IGNORECASE)
"""A cluster name may contain equals signs."""


_REFUSED_HINT = "name a file with credentials in --client-conf"

_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def addresses(
    clusters: str, option: str = "--clusters", client_confs: Sequence[str] = ()
) -> tuple[ClusterAddress, ...]:
    """Parse ``name=admin URL,…``, and read the broker URL of each cluster from it, or from the others if it is down.

    It is the URL for TLS if the admin URL is one. ``client_confs`` are as in ``client_confs_of``. A cluster that is
    down must not prevent replication between the others. Raises ConfigurationError with the name of the option for an
    invalid list, or if a cluster refuses the credentials, and ClusterUnreachableError if no reachable cluster knows
    the broker URL of a cluster.
    """
    urls = dict(_name_and_url(part, option) for part in clusters.split(","))
    confs = client_confs_of(client_confs, list(urls))
    asked = [ClusterAddress(name, "", url, confs.get(name, "")) for name, url in urls.items()]
    found = []
    with contextlib.ExitStack() as clients:
        known = {each: clients.enter_context(admin_client(each)) for each in asked}
        for each in asked:
            itself_first = {each: known[each], **known}
            found.append(replace(each, broker_url=_broker_url(each, itself_first, option)))
    return tuple(found)


def client_confs_of(given: Sequence[str], clusters: Sequence[str]) -> Mapping[str, str]:
    """Return the absolute path of the client.conf of each cluster; empty if it has none.

    ``NAME=PATH`` is for one cluster, and ``PATH`` for all others. Raises ConfigurationError for a cluster that is not
    in ``clusters``, and for two files of one cluster.
    """
    found: dict[str, str] = {}
    for text in given:
        name, path = _name_and_path(text, clusters)
        if name in found or not path:
            message = f"--client-conf: {text!r} has no path, or is a second file for the same clusters"
            raise ConfigurationError(message)
        found[name] = str(Path(path).absolute())
    return {name: found.get(name, found.get("", "")) for name in clusters}


def _name_and_path(text: str, clusters: Sequence[str]) -> tuple[str, str]:
    """Split ``NAME=PATH``; the name is empty if there is only a path. A name may contain equals signs."""
    for name in sorted(clusters, key=len, reverse=True):
        if text.startswith(f"{name}="):
            return name, text.removeprefix(f"{name}=")
    if not is_for_all(text):
        name = text.partition("=")[0]
        message = f"--client-conf: {name} is none of the clusters {', '.join(clusters)}"
        raise ConfigurationError(message)
    return "", text


def is_for_all(text: str) -> bool:
    """Return whether a value of ``--client-conf`` is only a path."""
    return "=" not in text.partition("/")[0]


class AddressWatch(Watch):
    """Detects changed broker URLs, in a thread of its own.

    A cluster is asked for its own URL. If it does not answer, the others are asked, and a URL counts only if their
    answer has changed, because they may always have used another URL.
    """

    def __init__(self, clusters: Sequence[ClusterAddress]) -> None:
        """Watch ``clusters``, given with their current addresses; `start` starts the thread."""
        super().__init__(
            "addresses",
            limits.ADDRESSES_POLL_SECONDS,
            {cluster.name: admin_client(cluster) for cluster in clusters},
        )
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self._said: dict[tuple[str, str], str] = {}
        """By asking and named cluster, the last URL."""
        self._moved: dict[str, ClusterAddress] = {}
        self._lock = threading.Lock()

    @property
    def clusters(self) -> tuple[ClusterAddress, ...]:
        """Return all clusters with their newest addresses."""
        with self._lock:
            return tuple(self._clusters.values())

    def take_moved(self) -> list[ClusterAddress]:
        """Return the clusters whose address changed since the last call."""
        with self._lock:
            moved, self._moved = list(self._moved.values()), {}
        return moved

    def poll(self) -> None:
        """Poll once."""
        for name, cluster in list(self._clusters.items()):
            url = self._newest_url(name)
            if url and url != cluster.broker_url:
                with self._lock:
                    self._clusters[name] = self._moved[name] = replace(cluster, broker_url=url)

    def _newest_url(self, name: str) -> str | None:
        found = None
        for asked in sorted(self._clients.keys() - {name}):
            before = self._said.get((asked, name))
            url = self._ask(asked, name)
            if before is not None and url and url != before:
                found = url
        return self._ask(name, name) or found

    def _ask(self, asked: str, name: str) -> str | None:
        try:
            url = self._clients[asked].clusters.get(name).get(_field_of(self._clusters[name]))
        except MagnetarError:
            return None
        if url:
            self._said[asked, name] = str(url)
        return str(url) if url else None

    def _ask_all(self) -> None:
        self.poll()


def _name_and_url(part: str, option: str) -> tuple[str, str]:
    match = _NAME_AND_URL.fullmatch(part.strip())
    if match is None:
        message = f"{option}: {part!r} is not of the form name=http://host:port"
        raise ConfigurationError(message)
    return match[1], match[2]


_HINTS = {
    "brokerServiceUrl": "magnetar clusters update {}",
    "brokerServiceUrlTls": "magnetar clusters update {} --broker-url-secure URL, or give an admin URL with http",
}


def _field_of(cluster: ClusterAddress) -> str:
    """Return the field of a cluster's data with its broker URL."""
    return "brokerServiceUrlTls" if cluster.admin_url.lower().startswith("https:") else "brokerServiceUrl"


def _broker_url(cluster: ClusterAddress, clients: Mapping[ClusterAddress, AdminClient], option: str) -> str:
    """Return the URL from the first cluster that answers."""
    name, field = cluster.name, _field_of(cluster)
    silence: MagnetarError | None = None
    for asked, client in clients.items():
        try:
            broker_url = client.clusters.get(name).get(field)
        except ClusterUnreachableError as error:
            silence = silence or error
        except AdminError as error:
            if error.status in _REFUSALS:
                message = f"{option}: {asked.name} at {asked.admin_url} refuses access: {error}\nhint: {_REFUSED_HINT}"
                silence = silence or ConfigurationError(message)
            # otherwise the cluster does not know the other one
        else:
            if broker_url:
                return str(broker_url)
    if silence is not None:
        raise silence
    message = f"{option}: no cluster knows the {field} of {name}\nhint: {_HINTS[field].format(name)}"
    raise ConfigurationError(message)
