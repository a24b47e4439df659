"""Named clusters, and the choice of the cluster that a command is sent to."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.errors import ConfigurationError
from magnetar.cli import session
from magnetar.cli.main import ExitCode, main
from magnetar.cli.profile_store import profiles_file
from magnetar.cli.spark_options import with_urls

EWR = {"adminUrl": "http://ewr:8080", "serviceUrl": None}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs to which requests were sent."""
    urls: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        token = request.headers.get("Authorization", "")
        urls.append(f"{request.url.scheme}://{request.url.netloc.decode()}{token and f' {token}'}")
        return httpx.Response(200, json=[])

    monkeypatch.setattr(session, "AdminClient", partial(AdminClient, transport=httpx.MockTransport(answer)))
    return urls


def as_json(line: str, capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: ANN401 - any JSON value
    assert main([*line.split(), "-o", "json"]) is ExitCode.DONE
    return json.loads(capsys.readouterr().out)


def test_a_profile_has_a_life(capsys: pytest.CaptureFixture[str]) -> None:
    assert as_json("profiles list", capsys) == []
    assert as_json("profiles set ewr --admin-url http://ewr:8080", capsys) == {
        "subject": "profile ewr",
        "field": "urls",
        "before": None,
        "after": EWR,
    }
    jfk = as_json("profiles set jfk --admin-url https://jfk --service-url pulsar://jfk:6650", capsys)["after"]
    assert as_json("profiles use ewr", capsys)["before"] is None
    assert as_json("profiles use jfk", capsys) == {
        "subject": "profiles",
        "field": "current",
        "before": "ewr",
        "after": "jfk",
    }
    assert as_json("profiles list", capsys) == [
        {"name": "ewr", "current": False, **EWR},
        {"name": "jfk", "current": True, **jfk},
    ]
    assert as_json("profiles remove jfk", capsys)["before"] == jfk
    assert as_json("profiles list", capsys) == [{"name": "ewr", "current": False, **EWR}]


def test_the_text_names_both_values(capsys: pytest.CaptureFixture[str]) -> None:
    for url, was in (("http://a", "not set"), ("http://b", "adminUrl=http://a")):
        assert main(["profiles", "set", "ewr", "--admin-url", url]) is ExitCode.DONE
        assert capsys.readouterr().err == f"urls of profile ewr: adminUrl={url} (was {was})\n"


@pytest.mark.parametrize(
    "line", ["profiles set a/b --admin-url http://a", "profiles set a --admin-url pulsar://a", "profiles use a"]
)
def test_bad_profiles_are_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) is ExitCode.FAILED
    assert "\nhint: " in capsys.readouterr().err
    assert not profiles_file().exists()


@pytest.mark.parametrize(
    "text", ["[]", "{", "[" * 100_000, '{"profiles": {"a": {}}}', '{"current": "b", "profiles": {}}']
)
def test_a_file_that_is_not_ours_is_named(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    profiles_file().parent.mkdir(parents=True)
    profiles_file().write_text(text)
    assert main(["profiles", "list"]) is ExitCode.FAILED
    assert str(profiles_file()) in capsys.readouterr().err


def test_a_user_without_a_home_has_no_profiles(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(Path, "home", refuse)
    as_json("tenants list", capsys)
    assert asked == ["http://localhost:8080"]
    assert main(["profiles", "set", "a", "--admin-url", "http://a"]) is ExitCode.FAILED
    assert "XDG_CONFIG_HOME" in capsys.readouterr().err


def test_a_home_that_is_no_directory_has_no_profiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    assert as_json("profiles list", capsys) == []
    assert main(["profiles", "set", "a", "--admin-url", "http://a"]) is ExitCode.FAILED
    assert "cannot write the profiles" in capsys.readouterr().err


def test_a_relative_configuration_directory_is_ignored() -> None:
    assert profiles_file({"XDG_CONFIG_HOME": "here"}) == profiles_file({})
    assert profiles_file({"XDG_CONFIG_HOME": "/etc/x"}).as_posix() == "/etc/x/magnetar/profiles.json"


@pytest.mark.parametrize(
    ("line", "environment", "url"),
    [
        ("tenants list", {}, "http://localhost:8080"),
        ("tenants list --cluster ewr", {}, "http://ewr:8080"),
        ("--cluster ewr tenants list", {}, "http://ewr:8080"),
        ("tenants --cluster ewr list", {}, "http://ewr:8080"),
        ("--cluster ewr tenants list --cluster jfk", {}, "http://jfk:8080"),
        ("tenants list", {"MAGNETAR_CLUSTER": "jfk"}, "http://jfk:8080"),
        ("tenants list", {"MAGNETAR_ADMIN_URL": "http://x"}, "http://x"),
        ("tenants list --cluster ewr", {"MAGNETAR_ADMIN_URL": "http://x"}, "http://ewr:8080"),
        ("--admin-url http://y tenants list", {"MAGNETAR_CLUSTER": "jfk"}, "http://y"),
    ],
)
def test_the_nearest_choice_wins(
    line: str,
    environment: dict[str, str],
    url: str,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("ewr", "jfk"):
        as_json(f"profiles set {name} --admin-url http://{name}:8080", capsys)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(line.split()) is ExitCode.DONE
    assert asked == [url]


def test_the_current_profile_is_the_default(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    as_json("profiles set ewr --admin-url http://ewr:8080", capsys)
    as_json("profiles use ewr", capsys)
    as_json("tenants list", capsys)
    as_json("profiles remove ewr", capsys)
    as_json("tenants list", capsys)
    assert asked == ["http://ewr:8080", "http://localhost:8080"]


def test_the_token_of_a_profile_is_sent_and_not_shown(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    of_file = as_json(f"profiles set ewr --admin-url http://ewr --auth-params {token.as_uri()}", capsys)
    as_json("profiles set jfk --admin-url http://jfk --auth-params token:secret", capsys)
    assert of_file["after"]["authParams"] == token.as_uri()
    assert "secret" not in json.dumps(as_json("profiles list", capsys))
    assert profiles_file().stat().st_mode & 0o077 == 0
    as_json("tenants list --cluster ewr", capsys)
    token.write_text("second")
    as_json("tenants list --cluster ewr", capsys)
    as_json("tenants list --cluster jfk", capsys)
    assert asked == ["http://ewr Bearer first", "http://ewr Bearer second", "http://jfk Bearer secret"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--auth-params token:", "the token is empty"),
        ("--auth-params file:///none", "cannot read the token in /none"),
        ("--tls-trust-certs-file-path /none", "cannot read certificates from /none"),
    ],
)
def test_credentials_that_cannot_be_used_name_the_reason(
    options: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    as_json(f"profiles set ewr --admin-url http://127.0.0.1:1 {options}", capsys)
    assert main(["tenants", "list", "--cluster", "ewr"]) is not ExitCode.DONE
    assert words in capsys.readouterr().err


def test_a_profile_has_the_files_of_tls(capsys: pytest.CaptureFixture[str]) -> None:
    files = {"tlsTrustCertsFilePath": "/ca.pem", "tlsCertificateFilePath": "/c.pem", "tlsKeyFilePath": "/k.pem"}
    line = "profiles set ewr --admin-url https://ewr:8443 --tls-trust-certs-file-path /ca.pem"
    as_json(f"{line} --tls-certificate-file-path /c.pem --tls-key-file-path /k.pem", capsys)
    (row,) = as_json("profiles list", capsys)
    assert {name: row[name] for name in files} == files
    assert main([*line.split(), "--tls-key-file-path", "/k.pem"]) is not ExitCode.DONE
    assert "must be given together" in capsys.readouterr().err


def test_the_form_of_a_token_is_checked_without_telling_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles", "set", "ewr", "--admin-url", "http://a", "--auth-params", "secret"]) is ExitCode.FAILED
    assert "secret" not in (error := capsys.readouterr().err)
    assert "file:///path" in error


def test_the_credentials_of_a_profile_do_not_reach_executors(capsys: pytest.CaptureFixture[str]) -> None:
    as_json("profiles set ewr --admin-url http://a --auth-params token:secret", capsys)
    for confs in ([], ["jfk=/a"]):
        with pytest.raises(ConfigurationError, match=r"the profile ewr has credentials.*\n.*--client-conf ewr=PATH"):
            with_urls("ewr,jfk=http://b", confs)
    for confs in (["/a"], ["ewr=/a"]):
        assert with_urls("ewr,jfk=http://b", confs) == "ewr=http://a,jfk=http://b"


@pytest.mark.parametrize(
    ("line", "environment", "words"),
    [
        ("--cluster a tenants list --admin-url http://b", {}, "--admin-url and --cluster are both given"),
        (
            "tenants list",
            {"MAGNETAR_CLUSTER": "a", "MAGNETAR_ADMIN_URL": "http://b"},
            "MAGNETAR_ADMIN_URL and MAGNETAR_CLUSTER are both given",
        ),
        ("tenants list --cluster a", {}, "no profile has the name a"),
    ],
)
def test_an_unclear_choice_is_refused(
    line: str,
    environment: dict[str, str],
    words: str,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(line.split()) is ExitCode.FAILED
    assert words in capsys.readouterr().err
    assert asked == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("magnetar --cluster e", ["ewr"]),
        ("magnetar topics list --cluster e", ["ewr"]),
        ("magnetar profiles use j", ["jfk"]),
        ("magnetar --cluster ewr topics sk", ["skip-entries", "skip"]),
        ("magnetar -o js", ["json"]),
    ],
)
def test_a_shell_completes_names(
    words: str, found: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ewr", "jfk"):
        as_json(f"profiles set {name} --admin-url http://{name}:8080", capsys)
    monkeypatch.setenv("_MAGNETAR_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == found


def test_the_pipeline_finds_clusters_by_their_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    as_json("profiles set ewr --admin-url http://ewr:8080", capsys)
    assert with_urls("ewr,legacy=http://pulsar:8080", []) == "ewr=http://ewr:8080,legacy=http://pulsar:8080"
    with pytest.raises(ConfigurationError, match="no profile has the name jfk; there are ewr"):
        with_urls("ewr,jfk", [])
