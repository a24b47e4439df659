"""The commands of ``pulsar-admin`` as the interop suite reads, orders and compares them."""

from __future__ import annotations

import pytest

from tests.interop.pulsar_admin.outcome import Outcome, difference, route_of
from tests.interop.pulsar_admin.recorder import Request
from tests.interop.pulsar_admin.script import families, words
from tests.interop.pulsar_admin.tool import Answer
from tests.interop.pulsar_admin.usage import Command, Parameter, commands

HELP = {
    "": "Usage: pulsar-admin [-hv] [COMMAND]\nCommands:\n  namespaces    Operations\n  sources, source  Sources\n",
    "namespaces": (
        "Usage: pulsar-admin namespaces [-hv] [COMMAND]\n"
        "  -h, --help   Show this\n"
        "Commands:\n"
        "  get-retention     Get the retention\n"
        "                      of a namespace\n"
        "  remove-retention  Remove it\n"
        "  set-retention     Set it\n"
    ),
    "namespaces get-retention": "Usage: pulsar-admin namespaces get-retention [-hv] <namespaceName>\nGet\n",
    "namespaces remove-retention": "Usage: pulsar-admin namespaces remove-retention [-hv] <namespaceName>\n",
    "namespaces set-retention": (
        "Missing options\nUsage: pulsar-admin namespaces set-retention [-hv] [-x=<x>[,<x>...]]... -s=<sizeLimit> "
        "--time=<retentionTimeInSec>[,<y>...] <namespaceName>\n"
    ),
    "sources": "Usage: pulsar-admin sources [-hv] [COMMAND]\n",
}

NAMESPACE = Parameter("", "namespaceName")
SET = Command(
    "namespaces", "set-retention", (Parameter("-s", "sizeLimit"), Parameter("--time", "retentionTimeInSec"), NAMESPACE)
)
GET = Command("namespaces", "get-retention", (NAMESPACE,))
REMOVE = Command("namespaces", "remove-retention", (NAMESPACE,))
STATS = Command("topics", "stats", (Parameter("", "topicName"),))
PATH = "/admin/v2/persistent/a/b/c/stats"


def outcome(status: int, output: str = "", code: int | None = None) -> Outcome:
    answer = Answer(int(status >= 400) if code is None else code, output, "")
    return Outcome(answer, [Request("GET", PATH, status, "no" if status >= 400 else "")])


def test_commands_are_read_from_the_help() -> None:
    assert list(commands(HELP.__getitem__)) == [GET, REMOVE, SET]


def test_readings_come_before_and_after_each_change() -> None:
    (family,) = families([GET, REMOVE, SET])
    assert list(family.script()) == [GET, SET, GET, REMOVE, GET]
    assert words(family, SET) == [*("namespaces", "set-retention", "-s", "10M", "--time", "1h"), "script/retention"]


def test_an_unknown_parameter_is_an_error() -> None:
    (family,) = families([GET])
    with pytest.raises(KeyError, match="no sample for altitude of namespaces get-retention"):
        words(family, Command("namespaces", "get-retention", (Parameter("", "altitude"),)))


def test_a_request_belongs_to_its_route() -> None:
    assert route_of(Request("GET", PATH, 200, "")).path == "/admin/v2/persistent/{tenant}/{namespace}/{topic}/stats"
    assert route_of(Request("GET", "/admin/v2/brokers/health", 200, "")).path == "/admin/v2/brokers/health"
    with pytest.raises(LookupError, match="no route for GET /admin/v2/flights"):
        route_of(Request("GET", "/admin/v2/flights", 200, ""))


@pytest.mark.parametrize(
    ("command", "ours", "theirs", "text"),
    [
        (STATS, outcome(404), outcome(404), ""),
        (STATS, outcome(404), outcome(412), "404 no; in Apache Pulsar 412 no"),
        (STATS, outcome(204, code=1), outcome(200), "unreadable; in Apache Pulsar ok"),
        (STATS, outcome(200, '{"a": 1, "b": [], "c": 2}'), outcome(200, '{"a": 2.5, "b": []}'), ""),
        (STATS, outcome(200, '{"a": "1"}'), outcome(200, '{"a": 1}'), "lacks .a: number"),
        (STATS, outcome(200, '{"x": {"t/n": {}}}'), outcome(200, '{"x": {"t/m": {"a": true}}}'), "lacks .x.*.a: bool"),
        (GET, outcome(200, "127.0.0.1:1"), outcome(200, "127.0.0.1:2"), ""),
        (GET, outcome(200, "1"), outcome(200, "2"), "prints '1'; Apache Pulsar '2'"),
    ],
)
def test_outcomes_are_compared(command: Command, ours: Outcome, theirs: Outcome, text: str) -> None:
    assert difference(command, ours, theirs) == text
