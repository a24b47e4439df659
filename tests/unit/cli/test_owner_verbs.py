"""The verbs for permissions, properties and bundles with a fake cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from magnetar.admin.models.bundles import bundle_of
from magnetar.base.names import TopicName
from magnetar.cli.main import ExitCode, main
from magnetar.metadata.policies import BundlesData
from tests.unit.cli.fake_cluster import OBS, TOPIC

if TYPE_CHECKING:
    from tests.unit.admin.fake_service import FakeAdminService
    from tests.unit.cli.fake_cluster import Run

PARTITIONED = "persistent://nyc/local/pt"


@pytest.mark.parametrize("owner", ["namespaces {} nyc/flights", f"topics {{}} {TOPIC}"])
def test_permissions(run: Run, owner: str) -> None:
    granted = run(f"{owner.format('grant-permission')} --role pilot/1 --actions consume,produce")
    assert granted["field"] == "permissions of role pilot/1"
    assert (granted["before"], granted["after"]) == (None, ["consume", "produce"])
    fewer = run(f"{owner.format('grant-permission')} --role pilot/1 --actions consume")
    assert (fewer["before"], fewer["after"]) == (["consume", "produce"], ["consume"])
    assert run(owner.format("permissions")) == {"pilot/1": ["consume"]}
    revoked = run(f"{owner.format('revoke-permission')} --role pilot/1")
    assert (revoked["before"], revoked["after"]) == (["consume"], None)
    assert run(owner.format("permissions")) == {}


def test_a_role_of_a_topic_keeps_the_permissions_of_the_namespace(run: Run) -> None:
    run("namespaces grant-permission nyc/flights --role pilot --actions consume")
    run(f"topics grant-permission {TOPIC} --role pilot --actions produce")
    told = run(f"topics revoke-permission {TOPIC} --role pilot")
    assert (told["before"], told["after"]) == (["consume", "produce"], ["consume"])


def test_properties_of_a_namespace(run: Run) -> None:
    told = run("namespaces set-property nyc/flights -k owner/team --value ops")
    assert (told["field"], told["before"], told["after"]) == ("property owner/team", None, "ops")
    told = run("namespaces set-properties nyc/flights -p tier=gold,query=a=b")
    assert told["before"] == {"owner/team": "ops"}
    assert told["after"] == {"owner/team": "ops", "tier": "gold", "query": "a=b"}
    assert run("namespaces get-property nyc/flights --key query") == "a=b"
    assert run("namespaces get-property nyc/flights --key none") is None
    told = run("namespaces remove-property nyc/flights -k owner/team")
    assert (told["field"], told["before"], told["after"]) == ("property owner/team", "ops", None)
    told = run("namespaces clear-properties nyc/flights")
    assert (told["before"], told["after"]) == ({"tier": "gold", "query": "a=b"}, {})
    assert run("namespaces get-properties nyc/flights") == {}


def test_properties_of_topics(run: Run) -> None:
    run("namespaces create nyc/local")
    run(f"topics create-partitioned-topic {PARTITIONED} -p 2")
    for topic in (TOPIC, PARTITIONED):
        assert run(f"topics get-properties {topic}") == {}
        told = run(f"topics update-properties {topic} -p a=1,2 --property b=")
        assert (told["field"], told["before"], told["after"]) == ("properties", {}, {"a": "1,2", "b": ""})
        told = run(f"topics remove-properties {topic} -k a")
        assert (told["field"], told["before"], told["after"]) == ("property a", "1,2", None)
        assert run(f"topics get-properties {topic}") == {"b": ""}


def test_bundles(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("namespaces create nyc/n --bundles 2")
    assert main(["namespaces", "bundles", "nyc/n"]) is ExitCode.DONE
    assert capsys.readouterr().out.split() == ["0x00000000_0x80000000", "0x80000000_0xffffffff"]
    told = run("namespaces split-bundle nyc/n --bundle 0x00000000_0x80000000")
    assert (told["field"], told["before"]["numBundles"], told["after"]["numBundles"]) == ("bundles", 2, 3)
    assert told["after"] == run("namespaces bundles nyc/n")
    assert main(["namespaces", "split-bundle", "nyc/n", "--bundle-type", "LARGEST"]) is ExitCode.DONE
    assert capsys.readouterr().err == "bundles of nyc/n: 4 (was 3)\n"


def test_splitting_a_bundle_at_positions(run: Run, service: FakeAdminService) -> None:
    run("namespaces create nyc/n --bundles 1")
    names = ("persistent://nyc/n/first", "persistent://nyc/n/second")
    for name in names:
        run(f"topics create {name}")
    line = "namespaces split-bundle nyc/n -bt HOT -u -san specified_positions_divide -sb 0x40000000,3221225472"
    assert run(line)["after"]["boundaries"] == ["0x00000000", "0x40000000", "0xc0000000", "0xffffffff"]
    assert [service.topics.held[TopicName.parse(name)].unloads for name in names] == [1, 1]


def test_unloading_a_namespace_or_a_bundle(run: Run, service: FakeAdminService) -> None:
    told = run("namespaces unload nyc/flights")
    assert (told["field"], told["before"], told["after"]) == ("topics", "loaded", "unloaded")
    assert service.topics.held[OBS].unloads == 1
    run("namespaces create nyc/n --bundles 2")
    topic = TopicName.parse("persistent://nyc/n/t")
    run(f"topics create {topic}")
    bundle = bundle_of(topic, BundlesData.model_validate(run("namespaces bundles nyc/n")))
    assert run(f"namespaces unload nyc/n --bundle {bundle}")["field"] == f"topics of bundle {bundle}"
    assert service.topics.held[topic].unloads == 1
    (other,) = {"0x00000000_0x80000000", "0x80000000_0xffffffff"} - {str(bundle)}
    run(f"namespaces unload nyc/n -b {other}")
    assert service.topics.held[topic].unloads == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("namespaces grant-permission nyc/flights --role r --actions fly", "produce, consume, functions"),
        ("namespaces grant-permission nyc/flights --role r --actions ,", "produce, consume, functions"),
        ("namespaces set-properties nyc/flights -p a", "'a' is not key=value"),
        (f"topics update-properties {TOPIC} -p =a", "'=a' is not key=value"),
        ("namespaces split-bundle nyc/flights", "give either --bundle or --bundle-type"),
        ("namespaces split-bundle nyc/flights -b 0x0_0x1 --bundle-type HOT", "give either --bundle or --bundle-type"),
        ("namespaces split-bundle nyc/flights -bt HOT -sb x", "'x' is not a number such as 0x20000000"),
    ],
)
def test_wrong_options_are_refused(line: str, told: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("namespaces policies nyc/flights")
    assert main([*line.split(), "-o", "json"]) is ExitCode.USAGE
    assert told in json.loads(capsys.readouterr().err)["error"]
