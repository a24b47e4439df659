"""Every command with a fake cluster."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.admin.models.protection import SubscriptionProtection
from magnetar.base.position import LATEST, Position
from magnetar.cli import session, subscriptions
from magnetar.cli.main import ExitCode, main
from magnetar.metadata.policies import Policies, TenantInfo
from magnetar.metasync.local.scope import is_local
from magnetar.security.exposure import Finding, Risk
from tests.unit.admin.fake_metadata_sync import FakeSynchronizer
from tests.unit.admin.fake_service import AppTransport, FakeAdminService, FakeSubscription
from tests.unit.cli.fake_cluster import OBS, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.metadata.awaiting import Commit
    from tests.unit.cli.fake_cluster import Run


def test_clusters(run: Run) -> None:
    run("clusters create C --url http://c:8080 --broker-url pulsar://c:6650")
    assert run("clusters list") == ["A", "B", "C"]
    run("clusters update C --url http://d:8080")
    assert run("clusters get C")["serviceUrl"] == "http://d:8080"
    assert run("clusters get C")["brokerServiceUrl"] == "pulsar://c:6650"
    run("clusters delete C --force")
    assert run("clusters list") == ["A", "B"]


def test_tenants(run: Run) -> None:
    run("tenants create t --allowed-clusters A --admin-roles r1,r2")
    assert run("tenants get t") == {"adminRoles": ["r1", "r2"], "allowedClusters": ["A"]}
    run("tenants update t -c A,B")
    assert run("tenants get t") == {"adminRoles": ["r1", "r2"], "allowedClusters": ["A", "B"]}
    run("tenants delete t --force")
    run("tenants create everywhere")
    assert run("tenants get everywhere")["allowedClusters"] == ["A", "B"]
    assert run("tenants list") == ["everywhere", "nyc"]


def test_routes(run: Run) -> None:
    epoch = run("routes set nyc B")["after"]["epoch"]
    assert run("routes get nyc") == {"scope": "nyc", "cluster": "B", "epoch": epoch}
    run(f"routes set nyc A --epoch {epoch}")
    run("routes set nyc/flights B")
    assert [(each["scope"], each["cluster"]) for each in run("routes list")] == [("nyc", "A"), ("nyc/flights", "B")]
    run("routes delete nyc --force")
    assert [each["scope"] for each in run("routes list")] == ["nyc/flights"]


def test_namespaces(run: Run) -> None:
    run("namespaces create nyc/n --clusters A --bundles 2")
    assert run("namespaces policies nyc/n")["bundles"]["numBundles"] == 2
    assert run("namespaces list nyc") == ["nyc/flights", "nyc/n"]
    run("namespaces set-clusters nyc/n --clusters A,B")
    assert run("namespaces get-clusters nyc/n") == ["A", "B"]
    run("namespaces set-clusters nyc/n -c A --force")
    run("namespaces delete nyc/n -f")
    assert run("namespaces list nyc") == ["nyc/flights"]


def test_retention(run: Run) -> None:
    assert run("namespaces get-retention nyc/flights") is None
    run("namespaces set-retention nyc/flights --time 3h --size 1G")
    assert run("namespaces get-retention nyc/flights") == {"retentionTimeInMinutes": 180, "retentionSizeInMB": 1024}
    run("namespaces set-retention nyc/flights -t -1 -s -1")
    assert run("namespaces get-retention nyc/flights") == {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    run("namespaces remove-retention nyc/flights")
    assert run("namespaces get-retention nyc/flights") is None


@pytest.mark.parametrize("owner", ["namespaces {} nyc/flights", f"topicPolicies {{}} {TOPIC}"])
def test_policies(run: Run, owner: str) -> None:
    def verb(name: str, options: str = "") -> Any:  # noqa: ANN401 - any JSON value
        return run(f"{owner.format(name)} {options}")

    for name, options, value in (
        ("retention", "-t 3h -s 1G", {"retentionTimeInMinutes": 180, "retentionSizeInMB": 1024}),
        ("message-ttl", "-ttl 90s", 90),
        ("deduplication", "--enable", True),
        ("deduplication", "--disable", False),
        ("deduplication-snapshot-interval", "--interval 10m", 600),
        ("delayed-delivery", "-e -t 500", {"active": True, "tickTime": 500, "maxDeliveryDelayInMillis": 0}),
        ("dispatcher-pause-on-ack-state-persistent", "", True),
        ("replicate-subscription-state", "--enabled true", True),
        ("replicate-subscription-state", "--enabled false", False),
        ("replicated-subscriptions-allowed", "--allowed false", False),
        ("max-at-risk-messages", "--messages 1000", 1000),
        ("max-at-risk-seconds", "--time 1m", 60),
        ("max-at-risk-seconds", "--time -1", -1),
        ("at-risk-copies", "--copies 2", 2),
        ("at-risk-absence", "--time 10m", 600),
        ("replicated-subscription-sync", "--mode markers", "markers"),
        ("replicated-subscriptions-snapshot-frequency", "--time 250", 250),
        ("replicated-subscription-active-cluster", "--active-cluster jfk", "jfk"),
    ):
        verb(f"set-{name}", options)
        assert verb(f"get-{name}") == value
        verb(f"remove-{name}")
        assert not verb(f"get-{name}")
    verb("set-backlog-quota", "-l 10M -p producer_request_hold")
    verb("set-backlog-quota", "-t message_age -lt 1h -p consumer_backlog_eviction")
    quotas = verb("get-backlog-quotas")
    assert (quotas["destination_storage"]["limitSize"], quotas["message_age"]["limitTime"]) == (10 * 2**20, 3600)
    verb("remove-backlog-quota", "-t message_age")
    assert list(verb("get-backlog-quotas")) == ["destination_storage"]


def test_custody(run: Run) -> None:
    run("namespaces set-custody nyc/flights --custody ewr=jfk -c lga=jfk")
    assert run("namespaces get-custody nyc/flights") == {"ewr": "jfk", "lga": "jfk"}
    run("namespaces remove-custody nyc/flights")
    assert run("namespaces get-custody nyc/flights") is None


def test_effective_policies_of_a_topic(run: Run) -> None:
    run("namespaces set-message-ttl nyc/flights -ttl 1m")
    assert run(f"topicPolicies get-message-ttl {TOPIC}") is None
    assert run(f"topicPolicies get-message-ttl {TOPIC} --applied") == 60


def test_topics(run: Run, service: FakeAdminService) -> None:
    run("topics create persistent://nyc/flights/np")
    assert run("topics list nyc/flights") == ["persistent://nyc/flights/np", TOPIC]
    run("topics delete nyc/flights/np --yes")
    run(f"topics unload {TOPIC}")
    assert service.topics.held[OBS].unloads == 1
    run(f"topics skip-entries {TOPIC} --link B --through 3:7 --force")
    assert service.topics.held[OBS].skipped == [("B", Position(3, 7))]
    run(f"topics snapshot {TOPIC}")
    run(f"topics snapshot {TOPIC} --without C -w B")
    assert service.topics.held[OBS].snapshots == [[], ["B", "C"]]
    assert run(f"topics stats {TOPIC}")["msgInCounter"] == 10
    assert run(f"topics stats-internal {TOPIC}")["lastConfirmedEntry"] == "3:9"
    assert run(f"topics last-message-id {TOPIC}")["entryId"] == 9
    assert run(f"topics lookup {TOPIC}")["brokerUrl"] == "pulsar://127.0.0.1:16650"


def test_partitioned_topics(run: Run) -> None:
    run("namespaces set-clusters nyc/flights -c A --force")
    run("topics create-partitioned-topic nyc/flights/pt -p 4")
    assert run("topics list-partitioned-topics nyc/flights") == ["persistent://nyc/flights/pt"]
    run("topics update-partitioned-topic nyc/flights/pt -p 6")
    assert run("topics get-partitioned-topic-metadata nyc/flights/pt") == {"partitions": 6}
    assert run("topics partitioned-stats nyc/flights/pt")["msgRateIn"] == 12.0
    assert len(run("topics partitioned-stats nyc/flights/pt --per-partition")["partitions"]) == 6
    run("topics delete-partitioned-topic nyc/flights/pt -y")
    assert run("topics list-partitioned-topics nyc/flights") == []


def test_subscriptions(run: Run, service: FakeAdminService) -> None:
    run(f"topics create-subscription {TOPIC} -s s2 -m earliest --replicated")
    assert run(f"topics subscriptions {TOPIC}") == ["sub", "s2"]
    assert run(f"topics get-replicated-subscription-status {TOPIC} -s s2") == {TOPIC: True}
    run(f"topics set-replicated-subscription-status {TOPIC} -s s2 --disable")
    assert run(f"topics get-replicated-subscription-status {TOPIC} -s s2") == {TOPIC: False}
    run(f"topics unsubscribe {TOPIC} -s s2 --yes")
    run(f"topics create-subscription {TOPIC} -s a/b")
    assert service.topics.held[OBS].subscriptions["a/b"].position == LATEST
    run(f"topics unsubscribe {TOPIC} -s a/b --force")
    assert run(f"topics subscriptions {TOPIC}") == ["sub"]


def test_moving_a_subscription(run: Run, service: FakeAdminService) -> None:
    subscription = service.topics.held[OBS].subscriptions["sub"]
    run(f"topics skip {TOPIC} -s sub -n 4 --force")
    assert subscription.position == Position(3, 3)
    run(f"topics clear-backlog {TOPIC} -s sub --force")
    assert subscription.position == Position(3, 9)
    run(f"topics reset-cursor {TOPIC} -s sub -m 3:5")
    assert subscription.position == Position(3, 4)
    run(f"topics reset-cursor {TOPIC} -s sub -m 3:5 -e --force")
    assert subscription.position == Position(3, 5)
    run(f"topics expire-messages {TOPIC} -s sub -t 2m --force")
    assert subscription.position == Position(3, -120)
    run(f"topics reset-cursor {TOPIC} -s sub -t 1h --force")
    assert subscription.position.entry_id > 0


def test_peek(run: Run) -> None:
    run(f"topics skip {TOPIC} -s sub -n 8 -f")
    found = run(f"topics peek-messages {TOPIC} -s sub -n 5")
    assert [(each["messageId"], each["payload"]) for each in found] == [("3:8", "x8"), ("3:9", "x9")]


def test_positions_of_subscriptions(run: Run) -> None:
    (row,) = run("subscriptions list nyc/flights")
    assert (row["topic"], row["subscription"], row["backlog"]) == (TOPIC, "sub", 10)
    (row,) = run(f"subscriptions stats {TOPIC}")
    assert row["backlog"] == 10
    assert row["acknowledgement state"] == "120% of the limit, dispatch is paused, a crash would redeliver 4 entries"
    (hole,) = run(f"subscriptions holes {TOPIC}")
    assert hole == {"subscription": "sub", "entries": "(3:4..3:6]", "held by": "slow"}


def test_protection(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = run(f"subscriptions protection {TOPIC}")
    assert (row["topic"], row["subscription"], row["status"]) == (TOPIC, "sub", "at risk")
    assert row["clusters"]["B"]["unreplicatedMessages"] == 7
    assert run("subscriptions protection --namespace nyc/flights") == [row]
    assert main(["subscriptions", "protection", TOPIC]) is ExitCode.DONE
    shown = capsys.readouterr().out
    assert "at least 2026-01-02T03:04:05.000Z" in shown
    assert "B: the progress link is down" in shown
    for both_or_none in ("", f"{TOPIC} -n nyc/flights"):
        assert main(["subscriptions", "protection", *both_or_none.split()]) is ExitCode.USAGE


def test_waiting_for_protection_ends_with_it_or_fails(
    run: Run, service: FakeAdminService, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["subscriptions", "protection", TOPIC, "--wait", "0s"]) is ExitCode.FAILED
    captured = capsys.readouterr()
    assert "at risk" in captured.out
    assert "1 subscriptions are not protected after 0 s" in captured.err
    statuses = iter(["at risk", "protected"])

    async def next_protection(_topic: TopicName) -> dict[str, SubscriptionProtection]:
        return {"sub": SubscriptionProtection(status=next(statuses), since="2026-01-02T03:04:05.000Z")}

    monkeypatch.setattr(service.topics, "protection", next_protection)
    monkeypatch.setattr(subscriptions, "POLL_SECONDS", 0)
    (row,) = run(f"subscriptions protection {TOPIC} --wait 1m")
    assert row["status"] == "protected"
    assert next(statuses, None) is None


def test_a_missing_feature_of_another_system_is_reported_once(
    run: Run, service: FakeAdminService, capsys: pytest.CaptureFixture[str]
) -> None:
    subscriptions = service.topics.held[OBS].subscriptions
    subscriptions["other"] = FakeSubscription(Position(3, -1), replicated=True)
    subscriptions["third"] = FakeSubscription(Position(3, -1), replicated=True)
    told = {row["subscription"]: row["without exact progress in"] for row in run(f"subscriptions stats {TOPIC}")}
    assert told == {"sub": "", "other": "apache", "third": "apache"}
    assert main(["subscriptions", "stats", TOPIC]) is ExitCode.DONE
    assert capsys.readouterr().err.count("no exact progress in apache: because") == 1


def test_brokers(run: Run) -> None:
    assert run("brokers list A") == ["127.0.0.1:18080"]
    assert run("brokers leader-broker")["brokerId"] == "127.0.0.1:18080"
    assert run("brokers version") == ["4.0.7"]
    assert run("brokers get-runtime-config")["defaultNumPartitions"] == "1"
    assert run("brokers healthcheck") is None


def test_the_health_of_a_broker_includes_its_risks(
    service: FakeAdminService, capsys: pytest.CaptureFixture[str]
) -> None:
    service.risks = [Finding(Risk.NO_AUTHENTICATION, "webServicePort 8080 is open", "set authenticationEnabled=true")]
    assert main(["brokers", "healthcheck"]) is ExitCode.DONE
    expected = "ok\nwarning: webServicePort 8080 is open; set authenticationEnabled=true\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("clusters list", "A\nB\n"),
        ("namespaces get-retention nyc/flights", ""),
        ("clusters get A", "serviceUrl                          http://127.0.0.1:18080\n"),
    ],
)
def test_text_is_for_reading(
    line: str, expected: str, service: FakeAdminService, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) is ExitCode.DONE
    assert capsys.readouterr().out.startswith(expected)


def test_tables_fit_a_pipe(service: FakeAdminService, capsys: pytest.CaptureFixture[str]) -> None:
    for line in (f"topics stats {TOPIC}", f"topics stats-internal {TOPIC}", "subscriptions list nyc/flights"):
        assert main(line.split()) is ExitCode.DONE
        lines = capsys.readouterr().out.splitlines()
        assert any(("sub" in each and "10" in each) or "3:-1" in each for each in lines)
        assert not any("\x1b" in each for each in lines)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (
            "topics stats nyc/flights/nope",
            ExitCode.FAILED,
            (
                "error: Topic persistent://nyc/flights/nope not found\nhint: http://localhost:8080 answered "
                "404 Not Found; list the topics with: magnetar topics list nyc/flights\n"
            ),
        ),
        (
            "topics stats nyc/flights",
            ExitCode.USAGE,
            (
                "error: Invalid value for 'TOPIC': invalid topic name 'nyc/flights': expected "
                "persistent://tenant/namespace/topic\nhint: --help lists the arguments and options\n"
            ),
        ),
        (
            f"topics reset-cursor {TOPIC} -s sub",
            ExitCode.USAGE,
            "error: Invalid value: give either --time or --messageId\nhint: --help lists the arguments and options\n",
        ),
        (
            f"topics reset-cursor {TOPIC} -s sub -t 5000w",
            ExitCode.USAGE,
            (
                "error: Invalid value: 3,024,000,000 s ago is before 1970\nhint: --help lists the arguments and "
                "options\n"
            ),
        ),
    ],
)
def test_errors_are_plain(
    line: str, code: ExitCode, words: str, service: FakeAdminService, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) is code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", words)


def test_no_cluster_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        message = "Connection refused"
        raise httpx.ConnectError(message, request=request)

    monkeypatch.setattr(session, "AdminClient", partial(AdminClient, transport=httpx.MockTransport(refuse)))
    monkeypatch.setenv("MAGNETAR_ADMIN_URL", "http://far:1")
    assert main(["clusters", "list"]) is ExitCode.UNREACHABLE
    assert capsys.readouterr().err == (
        "error: no answer from http://far:1: Connection refused; is the broker running, and is this its admin URL?\n"
        "hint: start a broker with: magnetar standalone; or name another cluster: --cluster NAME "
        "(magnetar profiles list shows the names) or --admin-url http://host:port\n"
    )


def test_a_noun_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics"]) is ExitCode.USAGE
    captured = capsys.readouterr()
    assert "create-partitioned-topic" in captured.out
    assert captured.err == ""


def test_schemas(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for index, definition in enumerate(('"int"', '"long"', '{"type":"int","doc":"x"}')):
        files.append(tmp_path / f"{index}.json")
        files[-1].write_text(json.dumps({"type": "AVRO", "schema": definition, "properties": {"a": "b"}}))
    run(f"schemas upload {TOPIC} -f {files[0]}")
    shown = {"version": 0, "type": "AVRO", "timestamp": 1_700_000_000_000, "data": '"int"', "properties": {"a": "b"}}
    assert run(f"schemas get {TOPIC}") == run(f"schemas get {TOPIC} -v 0") == shown
    compared = [run(f"schemas compatibility {TOPIC} --filename {file}")["compatibility"] for file in files]
    assert compared == [True, False, True]
    run(f"schemas upload {TOPIC} -f {files[2]}")
    assert [each["version"] for each in run(f"schemas get {TOPIC} --all-version")] == [0, 1]
    assert main(["schemas", "upload", TOPIC, "-f", str(files[1])]) is ExitCode.FAILED
    assert "409" in capsys.readouterr().err
    run(f"schemas delete {TOPIC} --yes")
    assert run(f"schemas get {TOPIC} -a") == []
    for text in (None, "[]", "{", "[" * 100_000):
        if text is not None:
            files[0].write_text(text)
        file = tmp_path / "none.json" if text is None else files[0]
        assert main(["schemas", "upload", TOPIC, "-f", str(file)]) is ExitCode.USAGE


def test_schema_policies(run: Run) -> None:
    for noun, owner in (("namespaces", "nyc/flights"), ("topicPolicies", TOPIC)):
        run(f"{noun} set-schema-compatibility-strategy {owner} -c BACKWARD")
        assert run(f"{noun} get-schema-compatibility-strategy {owner}") == "BACKWARD"
        run(f"{noun} set-schema-validation-enforce {owner} --enable")
        assert run(f"{noun} get-schema-validation-enforce {owner}") is True
    run("namespaces set-is-allow-auto-update-schema nyc/flights --disable")
    assert run("namespaces get-is-allow-auto-update-schema nyc/flights") is False


def test_the_client_finds_versions(service: FakeAdminService) -> None:
    schema = {"type": "AVRO", "schema": '"int"'}
    with AdminClient("http://a:8080", transport=AppTransport(service)) as client:
        assert client.schemas.version_of(OBS, schema) == -1
        client.schemas.upload(OBS, schema)
        assert client.schemas.version_of(OBS, schema) == 0


def test_local_changes(service: FakeAdminService, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    service.metadata_sync = synchronizer = FakeSynchronizer()
    scopes: list[bool] = []
    update = service.resources.namespaces.update

    def update_noting_the_scope(key: NamespaceName, change: Callable[[Policies], Policies]) -> Commit:
        scopes.append(is_local())
        return update(key, change)

    monkeypatch.setattr(service.resources.namespaces, "update", update_noting_the_scope)
    run("namespaces set-message-ttl nyc/flights -ttl 5 --local")
    run("namespaces set-message-ttl nyc/flights -ttl 6")
    run("namespaces set-property nyc/flights -k a -v b --local")
    run("namespaces set-retention nyc/flights -t 1m -s 1M --local")
    run("namespaces remove-retention nyc/flights --local")
    assert scopes == [True, False, True, True, True]
    (value,) = run("metadata local")
    assert (value["field"], value["here"], value["common"]) == ("message_ttl_in_seconds", 5, None)
    run("metadata remove-local nyc/flights --field message_ttl_in_seconds")
    assert synchronizer.removed == [("nyc/flights", "message_ttl_in_seconds")]


def test_unknown_fields_are_shown(service: FakeAdminService, run: Run) -> None:
    service.metadata_sync = FakeSynchronizer()
    (found,) = run("metadata unknown")
    assert (found["resourceName"], found["field"], found["value"]) == ("nyc/flights", "of_tomorrow", {"a": 1})
    assert (found["setBy"], found["setAt"]) == ("B", "2026-01-01T00:00:00.000Z")


def test_an_update_of_a_tenant_keeps_the_fields_that_it_does_not_name(service: FakeAdminService, run: Run) -> None:
    """A cluster with a later version may have set them."""
    tenant = TenantInfo.model_validate({"allowedClusters": ["A"], "ofTomorrow": 1, "other": 2})
    service.resources.tenants.create("t", tenant)
    run("tenants update t -r admin")
    found = service.resources.tenants.get("t")
    assert found is not None
    assert found.to_json() == {"adminRoles": ["admin"], "allowedClusters": ["A"], "ofTomorrow": 1, "other": 2}
