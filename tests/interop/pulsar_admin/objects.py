"""The objects that exist before the commands: namespaces, topics with messages and a subscription, clusters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx

from tests.interop.pulsar_admin.script import NOUNS_OF_TOPICS
from tests.kit.messages import connect, numbered, publish
from tests.kit.pulsar_jars import pulsar_jars
from tests.kit.rest import topic_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.interop.pulsar_admin.script import Family
    from tests.kit.server import Server

NOUNS = (*NOUNS_OF_TOPICS, "namespaces", "resource-quotas", "packages", "functions", "sinks", "sources")
"""Nouns whose commands need a namespace."""

_RECORD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


def prepare_files(directory: Path) -> dict[str, str]:
    """Write the files that commands read; return the words for them."""
    (directory / "package").write_text("a package")
    schema = {"type": "JSON", "schema": _RECORD, "properties": {}}
    (directory / "schema.json").write_text(json.dumps(schema))
    (jar,) = pulsar_jars().glob("pulsar-client-admin-api-*.jar")
    return {"directory": str(directory), "jar": str(jar)}


def prepare(server: Server, families: Iterable[Family]) -> None:
    """Create the objects of the families, except those that a command creates."""
    rest = server.rest
    rest.ensure("tenants/script", {"adminRoles": [], "allowedClusters": [server.cluster]})
    for cluster in ("near", "other"):
        rest.ensure(f"clusters/{cluster}", {"serviceUrl": "http://127.0.0.1:1"})
    client = connect(server.service_url)
    for family in families:
        is_created = family.noun == "namespaces" and not family.is_prepared
        if family.noun in NOUNS and not is_created:
            rest.ensure(f"namespaces/{family.namespace}", {})
            if family.noun in (*NOUNS_OF_TOPICS, "namespaces") and family.is_prepared:
                path = topic_path(family.topic)
                rest.put(f"{path}/partitions" if family.partitions else path, family.partitions or {})
                rest.put(f"{path}/subscription/s", "earliest")
                if family.noun == "topics":
                    publish(client, family.topic, numbered(3))
    client.close()


def words_of_broker(server: Server, family: Family) -> dict[str, str]:
    """Return the words that depend on the broker: its address, and the topic's ledger and bundle where they matter."""
    path, ledger, bundle = topic_path(family.topic), "0", ""
    if family.name == "message-by-id":
        ledger = str(server.rest.get(f"{path}/lastMessageId")["ledgerId"])
    if family.name == "topic-positions":
        bundle = httpx.get(f"{server.admin_url}/lookup/v2/topic/{path}/bundle").text
    return {"broker": server.admin_url.removeprefix("http://"), "ledger": ledger, "bundle": bundle}
