"""``magnetar up``: it prints all addresses, restarts processes, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

from magnetar.cli.main import ExitCode, main
from magnetar.cli.profile_store import profiles_file
from tests.geo.helpers import wait_for_entries
from tests.kit.clusters import NAMES, Up
from tests.kit.messages import numbered, publish
from tests.kit.processes import descendants, is_alive
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_it_says_where_everything_is(up: Up) -> None:
    assert list(up.ready["clusters"]) == list(NAMES)
    for name in NAMES:
        cluster = up.ready["clusters"][name]
        assert cluster["service_url"].startswith("pulsar://")
        assert up.broker_pids(name) == [cluster["pid"]]
        assert up.rest(name).is_healthy()
        assert "public/default" in up.rest(name).get("namespaces/public")
    assert is_alive(up.ready["pipeline"]["pid"])


def test_spark_has_a_log_of_its_own(up: Up) -> None:
    logs = up.process.output.parent / "data" / "logs"
    assert (logs / "spark.log").exists()
    *lines, _ = (logs / "pipeline.log").read_text().split("\n")
    events = [json.loads(line)["event"] for line in lines]
    assert events.index("spark_started") < events.index("ready")


def test_its_clusters_are_profiles_with_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    with Up(tmp_path, ("one",), "--no-pipeline", "--profiles") as running:
        member = running.members["one"]
        wait_until(profiles_file().exists)
        profiles = json.loads(profiles_file().read_text())["profiles"]
        assert profiles == {"one": {"adminUrl": member.admin_url, "serviceUrl": member.service_url}}
        assert main(["--cluster", "one", "namespaces", "create", "public/orders", "-o", "json"]) is ExitCode.DONE
        assert "public/orders" in running.rest("one").get("namespaces/public")
        steps = [json.loads(line) for line in running.process.log.read_text().splitlines()]
        assert [(step["event"], step.get("step")) for step in steps[:4]] == [
            ("starting", "broker one"),
            ("started", "broker one"),
            ("starting", "registration"),
            ("started", "registration"),
        ]


def test_one_command_replicates_a_namespace_between_all_clusters(
    up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    create = ["namespaces", "create", "public/one-command", "--clusters", ",".join(NAMES)]
    assert main(["--admin-url", up.members["ewr"].admin_url, *create, "-o", "json"]) is ExitCode.DONE
    topic = "persistent://public/one-command/t"
    publish(up.client("ewr"), topic, numbered(10))
    wait_for_entries(up, topic, 10, NAMES)


def test_killed_broker_comes_back_with_its_data(up: Up, topic: str) -> None:
    publish(up.client("ewr"), topic, numbered(20))
    (pid,) = up.broker_pids("ewr")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: up.broker_pids("ewr") not in ([], [pid]) and up.rest("ewr").is_healthy())
    publish(up.client("ewr"), topic, numbered(20, first=20))
    wait_for_entries(up, topic, 40, NAMES)


def test_sigterm_stops_all_of_it_and_data_outlives_it(tmp_path: Path) -> None:
    topic = "persistent://public/default/t"
    first = Up(tmp_path, ("one",), "--no-pipeline")
    first.client("one").subscribe(topic, "keeps").close()
    publish(first.client("one"), topic, numbered(10))
    below = descendants(first.process.pid)
    assert below
    first.disconnect()
    assert first.process.stop() == 0
    assert not any(map(is_alive, below))
    with Up(tmp_path, ("one",), "--no-pipeline") as again:
        assert again.rest("one").internal_stats(topic)["numberOfEntries"] == 10
