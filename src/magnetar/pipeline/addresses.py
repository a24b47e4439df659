"""The broker URLs of the clusters, read from admin ports at the start of a driver and periodically afterwards."""

from __future__ import annotations

import contextlib
import re
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from magnetar.base.errors import AdminError, ClusterUnreachableError, ConfigurationError, MagnetarError
from magnetar.pipeline import limits
from magnetar.pipeline.options import ClusterAddress
from magnetar.pipeline.watch import Watch, admin_client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.admin.client import AdminClient

_NAME_AND_URL = re.compile(r"(.+?)=(https?://.+)", re.IGNORECASE)
"""A cluster name may contain equals signs."""


def addresses(clusters: str, option: str = "--clusters") -> tuple[ClusterAddress, ...]:
    """Parse ``name=admin URL,…``, and read the broker URL of each cluster from it, or from the others if it is down.

    A cluster that is down must not prevent replication between the others. Raises ConfigurationError with the name of
    the option for an invalid list, and ClusterUnreachableError if no reachable cluster knows the broker URL of a
    cluster.
    """
    urls = dict(_name_and_url(part, option) for part in clusters.split(","))
    found = []
    with contextlib.ExitStack() as clients:
        known = {name: clients.enter_context(admin_client(url)) for name, url in urls.items()}
        for name, url in urls.items():
            itself_first = [known[name], *(client for other, client in known.items() if other != name)]
            found.append(ClusterAddress(name, _broker_url(name, itself_first, option), url))
    return tuple(found)


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
            {cluster.name: admin_client(cluster.admin_url) for cluster in clusters},
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
            url = self._clients[asked].clusters.get(name).get("brokerServiceUrl")
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


def _broker_url(name: str, clients: list[AdminClient], option: str) -> str:
    """Return the URL from the first cluster that answers."""
    silence: ClusterUnreachableError | None = None
    for client in clients:
        try:
            broker_url = client.clusters.get(name).get("brokerServiceUrl")
        except ClusterUnreachableError as error:
            silence = silence or error
        except AdminError:  # the cluster does not know the other one
            continue
        else:
            if broker_url:
                return str(broker_url)
    if silence is not None:
        raise silence
    message = f"{option}: no cluster knows the brokerServiceUrl of {name}\nhint: magnetar clusters update {name}"
    raise ConfigurationError(message)
