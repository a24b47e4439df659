"""Errors, as text and as JSON, and their hints."""

from __future__ import annotations

import json
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.cli import session
from magnetar.cli.failures import requested_output
from magnetar.cli.main import ExitCode, main
from magnetar.cli.output import Output
from tests.unit.cli.fake_cluster import TOPIC

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.admin.fake_service import FakeAdminService


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("", Output.TEXT),
        ("topics list", Output.TEXT),
        ("topics list -o json", Output.JSON),
        ("topics list -ojson", Output.JSON),
        ("--output json topics list", Output.JSON),
        ("topics --output=json list", Output.JSON),
        ("--output json topics list -o text", Output.TEXT),
        ("topics list -o", Output.TEXT),
        ("topics list -- -o json", Output.TEXT),
    ],
)
def test_the_output_format_is_found_anywhere(line: str, output: Output) -> None:
    assert requested_output(line.split()) is output


@pytest.mark.parametrize(
    ("line", "code", "expected"),
    [
        ("", ExitCode.USAGE, None),
        ("-o json", ExitCode.USAGE, {"error": "Missing command.", "exitCode": 2}),
        ("-o json topics", ExitCode.USAGE, None),
        ("topics list -o json", ExitCode.USAGE, {"error": "Missing argument 'NAMESPACE'.", "exitCode": 2}),
        ("-o json nouns list", ExitCode.USAGE, {"error": "No such command 'nouns'.", "exitCode": 2}),
        ("-o json topics list nyc/flights --wide", ExitCode.USAGE, {"exitCode": 2}),
        ("up --clusters a,a -o json", ExitCode.FAILED, {"error": "a cluster is named twice: a,a", "exitCode": 1}),
        (
            "topics stats nyc/flights/nope -o json",
            ExitCode.FAILED,
            {"status": 404, "url": "http://localhost:8080", "exitCode": 1},
        ),
    ],
)
def test_errors_are_json(
    line: str,
    code: ExitCode,
    expected: dict[str, Any] | None,
    service: FakeAdminService,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(line.split()) is code
    captured = capsys.readouterr().err
    if expected is None:
        assert captured == ""
    else:
        found = json.loads(captured)
        assert {name: found[name] for name in expected} == expected
        assert found["error"]


@pytest.mark.parametrize(
    ("line", "following"),
    [
        ("tenants get t", "tenants list"),
        ("tenants create nyc", "tenants get nyc"),
        ("namespaces policies nyc/none", "namespaces list nyc"),
        ("namespaces list t", "tenants list"),
        ("namespaces create nyc/flights", "namespaces policies nyc/flights"),
        ("topics stats nyc/flights/none", "topics list nyc/flights"),
        (f"topics create {TOPIC}", f"topics stats {TOPIC}"),
        (f"topics skip {TOPIC} -s none -n 1", f"topics subscriptions {TOPIC}"),
        (f"topics create-subscription {TOPIC} -s sub", f"subscriptions stats {TOPIC}"),
        ("clusters get C", "clusters list"),
        ("clusters create A", "clusters get A"),
        (f"schemas get {TOPIC}", f"topics stats {TOPIC}"),
    ],
)
def test_the_hint_of_a_refusal_names_the_url_and_the_next_command(
    line: str, following: str, service: FakeAdminService, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--admin-url", "http://a:8080", *line.split()]) is ExitCode.FAILED
    hint = capsys.readouterr().err.splitlines()[-1]
    assert hint.startswith("hint: http://a:8080 answered 4")
    assert hint.endswith(f": magnetar {following} --admin-url http://a:8080")


def test_a_cluster_that_wants_credentials(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(401, json={"reason": "Authentication required"}))
    monkeypatch.setattr(session, "AdminClient", partial(AdminClient, transport=transport))
    assert main(["tenants", "list"]) is ExitCode.FAILED
    assert capsys.readouterr().err == (
        "error: Authentication required\nhint: http://localhost:8080 answered 401 Unauthorized; "
        "PULSAR_CLIENT_CONF can name a client.conf with credentials, and a profile can have a token: "
        "magnetar profiles set NAME --admin-url URL --auth-params file:///path\n"
    )


def test_credentials_of_a_client_conf_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("Authorization"))
        return httpx.Response(200, json=[])

    file = tmp_path / "client.conf"
    file.write_text("authPlugin=basic\nauthParams=userId:bob,password:x\n")
    monkeypatch.setattr(session, "AdminClient", partial(AdminClient, transport=httpx.MockTransport(answer)))
    assert main(["tenants", "list"]) == ExitCode.DONE
    monkeypatch.setenv("PULSAR_CLIENT_CONF", str(file))
    assert main(["--admin-url", "http://a:8080", "tenants", "list"]) == ExitCode.DONE
    assert sent == [None, "Basic Ym9iOng="]
    monkeypatch.setenv("PULSAR_CLIENT_CONF", str(tmp_path / "none"))
    assert main(["tenants", "list"]) is ExitCode.FAILED
    assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(307, headers={"Location": "/admin/v2/brokers/health"}),
        httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=iter([b"no gzip"])),
    ],
)
def test_an_answer_that_leads_nowhere_is_none(
    answer: httpx.Response, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "AdminClient", partial(AdminClient, transport=httpx.MockTransport(lambda _: answer)))
    assert main(["brokers", "healthcheck", "-o", "json"]) is ExitCode.UNREACHABLE
    assert json.loads(capsys.readouterr().err)["error"].startswith("no answer from http://localhost:8080: ")


def test_the_text_of_an_unreachable_cluster_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-o", "json", "--admin-url", "http://127.0.0.1:1", "tenants", "list"]) is ExitCode.UNREACHABLE
    found = json.loads(capsys.readouterr().err)
    assert (found["url"], found["exitCode"]) == ("http://127.0.0.1:1", 3)
    assert "magnetar standalone" in found["hint"]


def test_the_pipeline_reports_clusters_that_do_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    clusters = "ewr=http://127.0.0.1:1,jfk=http://127.0.0.1:1"
    assert main(["pipeline", "replicate", "--clusters", clusters, "-o", "json"]) is ExitCode.UNREACHABLE
    assert json.loads(capsys.readouterr().err)["exitCode"] == ExitCode.UNREACHABLE


def test_a_port_in_use_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("magnetar.cli.pipeline.addresses_of", lambda *_: ())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        clusters = "ewr=http://127.0.0.1:1,jfk=http://127.0.0.1:1"
        code = main(["pipeline", "replicate", "--clusters", clusters, "--metrics-port", str(port)])
    assert code is ExitCode.FAILED
    assert f"error: cannot use port {port} for the metrics: Address already in use" in capsys.readouterr().err
