"""Apache Pulsar in standalone mode: one process with broker, bookie and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tests.kit.child import LOOPBACK, free_ports
from tests.kit.clusters import LocalClusters
from tests.kit.pulsar_jars import java, pulsar_jars
from tests.kit.server import NO_SETTINGS, Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MAIN_CLASS = "org.apache.pulsar.PulsarStandaloneStarter"

OPENED = (
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.base/sun.net",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
"""Packages of the JDK that Pulsar accesses by reflection."""

JVM_OPTIONS = (
    "-Xmx1500m",
    "-XX:MaxDirectMemorySize=1500m",
    "-Dio.netty.tryReflectionSetAccessible=true",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
)

SETTINGS: Mapping[str, object] = {
    "managedLedgerDefaultEnsembleSize": 1,
    "managedLedgerDefaultWriteQuorum": 1,
    "managedLedgerDefaultAckQuorum": 1,
    "enableReplicatedSubscriptions": "true",
    "allowAutoTopicCreationType": "non-partitioned",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "systemTopicEnabled": "true",
    "topicLevelPoliciesEnabled": "true",
    "loadBalancerEnabled": "false",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "transactionCoordinatorEnabled": "false",
    "journalSyncData": "true",  # the same meaning of a receipt as in Magnetar
    "allowLoopback": "true",
    "nettyMaxFrameSizeBytes": 5_253_120,  # as in Pulsar's bookkeeper.conf: the largest entry with its frame
}
"""Differences from Pulsar's defaults: one bookie on this machine, and no delays that a test would wait for."""

CLUSTERS_MAX = 3
"""Maximum number of Apache Pulsar clusters at a time: each takes 0.5 to 1.2 GB of memory."""

LOGGING = """\
<Configuration status="WARN">
  <Appenders>
    <Console name="words" target="SYSTEM_ERR">
      <PatternLayout pattern="%d{ISO8601} %-5level %logger{36} %msg%n%throwable"/>
    </Console>
  </Appenders>
  <Loggers>
    <Root level="WARN"><AppenderRef ref="words"/></Root>
    <Logger name="org.apache.pulsar.broker.service" level="INFO"/>
    <Logger name="org.apache.pulsar.client.impl" level="INFO"/>
  </Loggers>
</Configuration>
"""


class PulsarStandalone(Server):
    """Apache Pulsar on free ports, with its own metadata, and with durable entries as in Magnetar.

    The constructor raises PulsarUnavailableError if Pulsar cannot be run.
    """

    process_name: ClassVar[str] = "pulsar"

    def __init__(
        self, directory: Path, cluster: str = "standalone", settings: Mapping[str, object] = NO_SETTINGS
    ) -> None:
        """Choose ports, and download the program if necessary; ``settings`` are additional keys of ``broker.conf``."""
        super().__init__(directory, cluster, settings)
        self._java, self._jars = java(), pulsar_jars()
        (self._bookie_port,) = free_ports(1)

    def command(self) -> list[str]:
        """Write the configuration, and return Pulsar's command line."""
        configuration = self.write_configuration(SETTINGS)
        logging = self.directory / "log4j2.xml"
        logging.write_text(LOGGING)
        return [
            self._java,
            *JVM_OPTIONS,
            f"-Dlog4j.configurationFile={logging}",
            *("-cp", f"{self._jars}/*", MAIN_CLASS),
            *("-c", str(configuration), "-a", LOOPBACK, "-nfw", "-nss"),
            *("--metadata-dir", str(self.directory / "metadata")),
            *("--bookkeeper-dir", str(self.directory / "bookkeeper")),
            *("--bookkeeper-port", str(self._bookie_port)),
        ]


class MixedClusters(LocalClusters):
    """Clusters of both systems. Apache Pulsar's replicate by themselves, Magnetar's after the start of the pipeline."""

    def __init__(
        self,
        directory: Path,
        magnetar: Sequence[str],
        apache: Sequence[str],
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Choose ports; nothing runs yet. ``settings`` are those of Magnetar."""
        super().__init__(directory, magnetar, settings)
        self.pulsars = {name: PulsarStandalone(directory / name, name) for name in apache}
        self.members = {**self.brokers, **self.pulsars}

    def servers(self) -> Sequence[Server]:
        """Return all brokers of both systems."""
        return [*super().servers(), *self.pulsars.values()]

    def make_carried_namespace(self, namespace: str) -> None:
        """Create ``tenant/namespace`` everywhere.

        Only Magnetar's policies have all clusters, so the pipeline replicates all.
        """
        for name in self.members:
            self.make_local_namespace(name, namespace)
        for name in self.brokers:
            self.rest(name).post(f"namespaces/{namespace}/replication", sorted(self.members))


class PulsarClusters(MixedClusters):
    """Up to three clusters of Apache Pulsar, within the memory of a usual machine."""

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        """Choose ports; nothing runs yet."""
        assert 1 <= len(names) <= CLUSTERS_MAX, names
        super().__init__(directory, magnetar=(), apache=names)
