"""The sources of a configuration, and keys that are not settings of Magnetar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.loading import LoadedSettings, load
from magnetar.broker.settings.pulsar_keys import Effect, pulsar_keys

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NOTHING: Mapping[str, str] = {}


def loaded(
    directory: Path, text: str, environment: Mapping[str, str] = NOTHING, *, acknowledge_all: bool = False
) -> LoadedSettings:
    file = directory / "broker.conf"
    file.write_text(text)
    return load(file, environment, {}, acknowledge_all=acknowledge_all)


def refusal(directory: Path, text: str, environment: Mapping[str, str] = NOTHING) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        loaded(directory, text, environment)
    return str(refused.value).splitlines()


def test_flags_override_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("clusterName=file\nbindAddress=file\nadvertisedAddress=file\n")
    environment = {"MAGNETAR_clusterName": "environment", "MAGNETAR_bindAddress": "environment"}
    config = load(file, environment, {"clusterName": "flag"}).config
    assert (config.clusterName, config.bindAddress, config.advertisedAddress) == ("flag", "environment", "file")


def test_an_empty_value_means_the_default(tmp_path: Path) -> None:
    text = "clusterName=\nmaxMessagePublishBufferSizeInMB=\ndataDirectory=\nbrokerDeduplicationEnabled=\n"
    assert loaded(tmp_path, text).config == BrokerConfig()


def test_an_empty_value_overrides_that_of_an_earlier_source(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("metadataSyncEventTopic=persistent://public/sync/events\nlogFile=broker.log\n", encoding="utf-8")
    found = load(file, {"MAGNETAR_logFile": ""}, {"metadataSyncEventTopic": ""})
    assert (found.config.metadataSyncEventTopic, found.config.logFile) == ("", "")


def test_a_file_of_all_keys_with_pulsars_defaults_is_accepted_and_every_other_key_is_reported(tmp_path: Path) -> None:
    keys = pulsar_keys().by_name
    text = "".join(f"{key.name} = {key.default}\n" for key in keys.values())
    found = loaded(tmp_path, text)
    expected = {name for name, key in keys.items() if key.effect is not Effect.SETTING} - {*BrokerConfig.model_fields}
    assert {key.name for key in found.ignored} == expected
    assert all(key.is_default for key in found.ignored)
    assert found.config.managedLedgerMaxUnackedRangesToPersist == 10_000
    assert found.config.partitions_max == 100_000
    assert found.config.maxConcurrentConnections == BrokerConfig().maxConcurrentConnections


@pytest.mark.parametrize(
    ("key", "setting", "value"),
    [
        ("backlogQuotaDefaultLimitGB=1.5", "backlogQuotaDefaultLimitBytes", 3 << 29),
        ("backlogQuotaDefaultLimitGB=-1\nbacklogQuotaDefaultLimitBytes=7", "backlogQuotaDefaultLimitBytes", 7),
        ("backlogQuotaDefaultLimitBytes=7\nbacklogQuotaDefaultLimitGB=1", "backlogQuotaDefaultLimitBytes", 1 << 30),
        ("brokerMaxConnections=77", "maxConcurrentConnections", 77),
        (
            "managedLedgerMaxUnackedRangesToPersistInZooKeeper=55",
            "managedLedgerMaxUnackedRangesToPersistInMetadataStore",
            55,
        ),
    ],
)
def test_older_keys_stand_for_the_settings_that_replaced_them(
    tmp_path: Path, key: str, setting: str, value: int
) -> None:
    found = loaded(tmp_path, key)
    assert getattr(found.config, setting) == value
    assert found.ignored == ()


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("TRUE", True), ("False", False)])
def test_a_switch_is_true_or_false(tmp_path: Path, value: str, expected: bool) -> None:
    assert loaded(tmp_path, f"brokerDeduplicationEnabled={value}").config.brokerDeduplicationEnabled is expected


def test_a_switch_with_another_word_is_refused_because_pulsar_reads_it_as_false(tmp_path: Path) -> None:
    assert refusal(tmp_path, "brokerDeduplicationEnabled=yes") == [
        "invalid configuration",
        "  brokerDeduplicationEnabled='yes': expected true or false",
    ]


@pytest.mark.parametrize(
    ("text", "variables", "problem"),
    [
        ("brokerServicePort=70000", {}, "brokerServicePort='70000': Input should be less than or equal to 65535"),
        ("backlogQuotaDefaultLimitGB=ten", {}, "backlogQuotaDefaultLimitGB='ten': not a number"),
        ("backlogQuotaDefaultLimitGB=inf", {}, "backlogQuotaDefaultLimitGB='inf': not a number"),
        ("brokerMaxConnections=nan", {}, "brokerMaxConnections='nan': not a number"),
        ("clusterName=a b", {}, "clusterName='a b': use letters, digits and -=:._ only"),
        ("brokerServicPort=1", {}, "brokerServicPort: unknown key; did you mean brokerServicePort?"),
        ("broker_service_port=1", {}, "broker_service_port: unknown key; did you mean brokerServicePort?"),
        ("authenticatonEnabled=1", {}, "authenticatonEnabled: unknown key; did you mean authenticationEnabled?"),
        ("quux=1", {}, "quux: unknown key"),
        (
            "metadataSyncExcludedResources=*#message_ttl",
            {},
            "metadataSyncExcludedResources='*#message_ttl': '*#message_ttl': no document of a tenant, namespace or ",
        ),
        ("metadataSyncIncludedResources=a/b/c", {}, "metadataSyncIncludedResources='a/b/c': 'a/b/c' is not a rule: "),
        ("", {"MAGNETAR_clusterNam": "x"}, "MAGNETAR_clusterNam: unknown key; did you mean MAGNETAR_clusterName?"),
        (
            "",
            {"MAGNETAR_CLUSTER_NAME": "x"},
            "MAGNETAR_CLUSTER_NAME: unknown variable; did you mean MAGNETAR_clusterName?",
        ),
        ("", {"MAGNETAR_brokerServicePort": "x"}, "MAGNETAR_brokerServicePort='x': Input should be a valid integer, "),
    ],
)
def test_a_problem_is_one_line_that_names_its_key(
    tmp_path: Path, text: str, variables: Mapping[str, str], problem: str
) -> None:
    found = refusal(tmp_path, text, variables)
    assert len(found) == 2
    assert found[1].startswith(f"  {problem}")


def test_variables_of_other_programs_are_no_settings(tmp_path: Path) -> None:
    service = {
        "MAGNETAR_PORT": "tcp://10.0.0.1:6650",
        "MAGNETAR_SERVICE_HOST": "10.0.0.1",
        "MAGNETAR_SERVICE_PORT": "6650",
    }
    others = {"MAGNETAR_ADMIN_URL": "http://127.0.0.1:8080", "MAGNETAR_": "x", "clusterName": "x"}
    assert loaded(tmp_path, "", service | others).config == BrokerConfig()


def test_keys_that_are_no_settings_are_reported_without_values(tmp_path: Path) -> None:
    text = "authorizationProvider=other\nunknownKey=s3cret\ntokenSecretKey=s3cret\nbrokerClient_x=s3cret\n"
    assert "s3cret" not in "\n".join(refusal(tmp_path, text))


def test_a_key_with_pulsars_default_is_not_dangerous(tmp_path: Path) -> None:
    text = "tlsEnabled=FALSE\nentryFilterNames=\nmanagedLedgerDefaultAckQuorum=02\nbackupKey=1\n"
    assert refusal(tmp_path, text)[1:] == ["  backupKey: unknown key"]


def test_one_copy_of_an_entry_is_what_there_is(tmp_path: Path) -> None:
    assert not loaded(tmp_path, "managedLedgerDefaultWriteQuorum=1").ignored[0].is_default
    assert "one copy" in refusal(tmp_path, "managedLedgerDefaultWriteQuorum=3")[1]


TLS_FILES = "tlsCertificateFilePath=/c\ntlsKeyFilePath=/k\n"


def test_an_empty_port_is_not_opened(tmp_path: Path) -> None:
    text = f"brokerServicePort=\nwebServicePort=\nbrokerServicePortTls=6651\nwebServicePortTls=8443\n{TLS_FILES}"
    found = loaded(tmp_path, text)
    assert (found.config.brokerServicePort, found.config.webServicePort) == (None, None)
    assert (found.config.brokerServicePortTls, found.config.webServicePortTls) == (6651, 8443)
    assert found.ignored == ()
    assert loaded(tmp_path, "brokerServicePortTls=\n").config == BrokerConfig()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("brokerServicePort=\n", "brokerServicePort: set it or brokerServicePortTls: a broker needs one of them"),
        (f"webServicePort=\nbrokerServicePortTls=0\n{TLS_FILES}", "webServicePort: set it or webServicePortTls"),
        ("webServicePortTls=0\ntlsKeyFilePath=/k\n", "tlsCertificateFilePath: a port with TLS needs it"),
        ("tlsRequireTrustedClientCertOnConnect=true\n", "tlsRequireTrustedClientCertOnConnect: it needs tlsTrustCerts"),
        (
            "tlsRequireTrustedClientCertOnConnect=true\ntlsTrustCertsFilePath=/t\ntlsAllowInsecureConnection=true\n",
            "tlsRequireTrustedClientCertOnConnect: it contradicts tlsAllowInsecureConnection",
        ),
        ("tlsProtocols=SSLv3\n", "tlsProtocols: 'SSLv3' is not supported"),
        ("webServiceTlsCiphers=HIGH\n", "webServiceTlsCiphers: 'HIGH' is not a supported"),
        ("tlsProtocols=TLSv1.3\ntlsCiphers=AES128-SHA256\n", "tlsCiphers: no cipher suite belongs to a version"),
        ("brokerClientKeyFilePath=/k\n", "brokerClientCertificateFilePath: it must be given together with"),
    ],
)
def test_settings_of_tls_that_contradict_each_other_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    (_, found) = refusal(tmp_path, text)
    assert found.startswith(f"  {problem}")


def test_dangerous_keys_are_refused_until_they_are_acknowledged(tmp_path: Path) -> None:
    text = "authorizationProvider=other\ntlsEnabled=true\n"
    problems = refusal(tmp_path, text)
    assert [line.partition(":")[0].strip() for line in problems] == [
        "invalid configuration",
        "authorizationProvider",
        "tlsEnabled",
        "hint",
    ]
    named = f"{text}acknowledgeIgnoredKeys=authorizationProvider, tlsEnabled\n"
    for found in (loaded(tmp_path, text, acknowledge_all=True), loaded(tmp_path, named)):
        assert {key.name for key in found.ignored} == {"authorizationProvider", "tlsEnabled"}
    half = f"{text}acknowledgeIgnoredKeys=authorizationProvider\n"
    assert [line.partition(":")[0].strip() for line in refusal(tmp_path, half)][1] == "tlsEnabled"


def test_an_unknown_key_is_ignored_if_it_is_named(tmp_path: Path) -> None:
    assert len(refusal(tmp_path, "kafkaListeners=x\nacknowledgeIgnoredKeys=all\n")) == 2
    (found,) = loaded(tmp_path, "kafkaListeners=x\nacknowledgeIgnoredKeys=all,kafkaListeners\n").ignored
    assert (found.name, found.effect) == ("kafkaListeners", Effect.IGNORED)


def test_a_file_in_pulsars_encoding_is_read(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_bytes("# für uns\nadvertisedAddress=h\n".encode("latin-1"))
    assert load(file, {}, {}).config.advertisedAddress == "h"


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("advertisedAddress=h\n", encoding="utf-8-sig")
    assert load(file, {}, {}).config.advertisedAddress == "h"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read the configuration file .*absent"):
        load(tmp_path / "absent", {}, {})
