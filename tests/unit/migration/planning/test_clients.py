from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.migration.planning.clients import client_findings, understands_migration
from magnetar.migration.planning.facts import ClusterFacts
from magnetar.migration.planning.findings import Severity


@pytest.mark.parametrize(
    ("version", "understands"),
    [
        ("Pulsar-Java-v4.0.7", True),
        ("Pulsar-Java-v2.10.4", False),
        ("Pulsar-Java-v2.11.0", None),
        ("Pulsar-CPP-v3.7.0", True),
        ("Pulsar-CPP-v3.5.1", None),
        ("Pulsar-CPP-v3.1.2", False),
        ("Pulsar Go 0.11.1", False),
        ("Pulsar-Go-v0.13.1", True),
        ("my own client", None),
        ("unknown", None),
    ],
)
def test_versions_tell_what_a_client_understands(version: str, understands: bool | None) -> None:
    assert understands_migration(version) is understands


def test_clients_that_understand_are_no_finding() -> None:
    magnetar = ClusterFacts("ewr", is_magnetar=True, options="", settings={}, registered=frozenset())
    connections = {"Pulsar-CPP-v3.7.0": 5, "Pulsar-CPP-v3.1.2": 2, "rust": 1_000}
    for source, severity in ((magnetar, Severity.NOTE), (replace(magnetar, is_magnetar=False), Severity.WARNING)):
        assert [(each.severity, each.resource, each.detail) for each in client_findings(connections, source)] == [
            (severity, "Pulsar-CPP-v3.1.2", "2 producers and consumers"),
            (severity, "rust", "1,000 producers and consumers"),
        ]
