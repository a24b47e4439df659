"""Apache Pulsar's ``pulsar-admin``: each command of its help has the same outcome in Magnetar and in Apache Pulsar.

The compatibility matrix names the exceptions: routes that are refused with 501, and other answers.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from magnetar.admin.api import served_routes
from magnetar.admin.exchange import AdminRoute, Context
from magnetar.admin.pulsar_api.differences import DIFFERENCES
from magnetar.admin.pulsar_api.routes import Status, by_key
from reference.broker import administration
from tests.interop.pulsar_admin.differences import TEXTS
from tests.interop.pulsar_admin.objects import prepare, prepare_files, words_of_broker
from tests.interop.pulsar_admin.outcome import Outcome, difference
from tests.interop.pulsar_admin.recorder import Recorder
from tests.interop.pulsar_admin.samples import EXCLUDED, FURTHER, NAMED
from tests.interop.pulsar_admin.script import families, is_reading, words
from tests.interop.pulsar_admin.tool import AdminTool
from tests.interop.pulsar_admin.usage import commands
from tests.kit.broker import Broker
from tests.kit.pulsar import PulsarStandalone
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.interop.pulsar_admin.script import Family
    from tests.interop.pulsar_admin.usage import Command
    from tests.kit.server import Server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

CONVERGENCE_S = 3.0
"""Seconds until a reading must have the same result: Apache Pulsar applies policies of topics after its answer."""


STATS_AT_ONCE = {"statsUpdateInitialDelayInSecs": 1, "statsUpdateFrequencyInSecs": 1}
"""Settings of Apache Pulsar: otherwise it depends on the time whether the statistics of the broker contain topics."""


@dataclass
class System:
    """A broker behind a recorder."""

    server: Server
    recorder: Recorder
    tool: AdminTool
    files: dict[str, str]

    def run(self, family: Family, command: Command) -> Outcome:
        values = {**words_of_broker(self.server, family), **self.files}
        answer = self.tool.run(self.recorder.url, words(family, command, **values))
        return Outcome(answer, self.recorder.take())


@dataclass
class Comparison:
    """The outcomes of all commands in Magnetar and in Apache Pulsar."""

    served: dict[tuple[str, str], AdminRoute]
    commands: list[Command] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)
    """Numbers of runs, by the outcome in Magnetar."""
    unnamed: list[str] = field(default_factory=list)
    """Differences that the compatibility matrix does not name."""
    named: set[tuple[str, str]] = field(default_factory=set)
    """Other answers, by method and path, that occurred."""

    def run(self, family: Family, command: Command, ours: System, theirs: System) -> None:
        """Run a command in both systems; repeat a reading while the results differ."""
        attempts: list[tuple[Outcome, str]] = []

        def is_settled() -> bool:
            found = ours.run(family, command)
            text = difference(command, found, theirs.run(family, command))
            attempts.append((found, text))
            return not text or self.is_named(found, text)

        if not is_settled() and is_reading(command):
            with suppress(TimeoutError):
                wait_until(is_settled, CONVERGENCE_S, interval_s=0.1)
        found, text = attempts[-1]
        self.runs[found.summary] += 1
        if text and not self.is_named(found, text):
            self.unnamed.append(f"{command.name}: {text}")
        elif text and found.route is not None and found.summary == "ok":
            self.named.add(found.route.name)

    def is_named(self, found: Outcome, text: str) -> bool:
        """Return whether the compatibility matrix names a difference."""
        if found.route is None:
            return False
        if found.summary == "501":
            return found.route.status(self.served) in {Status.NOT_YET, Status.NEVER}
        form = TEXTS.get(found.route.name)
        return form is not None and form.fullmatch(text) is not None


@pytest.fixture(scope="module")
def comparison(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    directory = tmp_path_factory.mktemp("pulsar-admin")
    files = prepare_files(directory)
    result = Comparison(by_key(served_routes(Context(*administration()))))
    with (
        AdminTool(directory / "java.log") as tool,
        Broker(directory / "magnetar", "lone") as magnetar,
        PulsarStandalone(directory / "apache", "lone", STATS_AT_ONCE) as apache,
        Recorder(magnetar.admin_url) as of_magnetar,
        Recorder(apache.admin_url) as of_apache,
    ):
        result.commands += commands(tool.help)
        script = families(result.commands)
        for server in (magnetar, apache):
            prepare(server, script)
        wait_until(lambda: apache.rest.get("broker-stats/topics"), what="statistics of topics")
        ours, theirs = System(magnetar, of_magnetar, tool, files), System(apache, of_apache, tool, files)
        for family in script:
            for command in family.script():
                result.run(family, command, ours, theirs)
    return result


def test_each_command_has_the_outcome_of_apache_pulsar_or_that_of_the_matrix(comparison: Comparison) -> None:
    print(f"{comparison.runs.total()} runs of {len(comparison.commands)} commands: {dict(comparison.runs)}")  # noqa: T201
    assert comparison.unnamed == [], "\n".join(comparison.unnamed)


def test_most_commands_succeed(comparison: Comparison) -> None:
    """The samples are valid, and the help is read completely."""
    assert len(comparison.commands) > 400
    assert comparison.runs["ok"] > 400
    assert comparison.runs["not sent"] == 0


def test_each_other_answer_of_the_matrix_occurs(comparison: Comparison) -> None:
    assert comparison.named == {*TEXTS} == {*DIFFERENCES}


def test_each_command_of_the_samples_exists(comparison: Comparison) -> None:
    assert {*EXCLUDED, *FURTHER, *NAMED} - {command.name for command in comparison.commands} == set()
