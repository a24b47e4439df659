"""``magnetar migrate verify``: the audit of both clusters, whose result the journal keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import MigrationError
from magnetar.cli.global_options import OutputForm
from magnetar.cli.migrate_names import From, Namespaces, Tenant, To
from magnetar.cli.migrate_run import State, directory_of, opened, require_begun
from magnetar.cli.output import Output, say
from magnetar.cli.pipeline_audit import FindingsDirectory, SettleSeconds, compared, show_report
from magnetar.cli.spark_options import (
    ClientConf,
    Package,
    SparkConf,
    SparkLog,
    SparkMaster,
    WorkDirectory,
    addresses_of,
    spark_settings,
    url_of,
)
from magnetar.migration.machine.records import StageMoved
from magnetar.migration.machine.tables import Stage, StageEvent

if TYPE_CHECKING:
    from magnetar.migration.machine.journal import Journal


def verify(
    tenant: Tenant,
    *,
    source: From,
    target: To,
    namespace: Namespaces = None,
    state: State = None,
    findings: FindingsDirectory = None,
    settle_seconds: SettleSeconds = 10.0,
    master: SparkMaster = None,
    work_dir: WorkDirectory = None,
    spark_log: SparkLog = None,
    conf: SparkConf = None,
    package: Package = None,
    client_conf: ClientConf = None,
    output: OutputForm = Output.TEXT,
) -> int:
    """Compare every entry and acknowledgement of the tenant in both clusters, as magnetar pipeline audit does.

    The migration must be ready. A second verification reads new entries only. The journal keeps the number of findings.
    The exit code is 1 if there is a finding, and 4 if the comparison could not be completed.
    """
    spark = spark_settings(master, work_dir, spark_log, conf, package)
    confs = client_conf or []
    with opened(tenant, source, target, namespace or (), state) as (pair, journal):
        _require_ready(tenant, journal)
        sides = {pair.source_name: source, pair.target_name: target}
        urls = ",".join(f"{name}={url_of(cluster, name, confs)}" for name, cluster in sides.items())
        report = compared(
            addresses_of(urls, confs),
            topics=list(map(str, pair.scope.topics)),
            namespaces=[place for place in journal.migration.places if "://" not in place],
            state=directory_of(tenant, state) / "audit",
            findings=findings,
            settle_seconds=settle_seconds,
            spark=spark,
        )
        show_report(report, output)
        differences = sum(report.by_kind.values())
        journal.append(StageMoved(StageEvent.VERIFIED, differences))
        if not differences and output is Output.TEXT:
            say("verified: the target has every message and every acknowledgement")
    return int(differences > 0)


def _require_ready(tenant: str, journal: Journal) -> None:
    migration = journal.migration
    require_begun(tenant, migration)
    if migration.stage is not Stage.READY:
        message = f"the migration is in the step '{migration.stage.value}', and can be verified when it is ready\n"
        message += "hint: continue it with: magnetar migrate run"
        raise MigrationError(message)
