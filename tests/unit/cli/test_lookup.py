from __future__ import annotations

import pytest

from magnetar.cli.main import main

URL = "--broker-url http://a:1"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("--broker-url pulsar://a:1", "--broker-url pulsar://a:1 is no admin URL"),
        (f"{URL} --tls-port 0", "must be given together"),
        (f"{URL} --tls-certificate a --tls-key b", "must be given together"),
        (f"{URL} --client-conf absent", "absent"),
        (f"{URL} --questions-max 0", "--questions-max"),
    ],
)
def test_options_that_cannot_be_used_are_named(capsys: pytest.CaptureFixture[str], arguments: str, error: str) -> None:
    assert main(["lookup", *arguments.split()]) != 0
    assert error in capsys.readouterr().err
