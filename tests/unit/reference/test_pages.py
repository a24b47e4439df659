from __future__ import annotations

import re

import pytest

from reference.pages import DIRECTORY, pages

PAGES = pages()


def test_there_is_a_file_for_each_page_and_no_other() -> None:
    assert sorted(each.name for each in DIRECTORY.iterdir()) == sorted(PAGES)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_says_what_the_code_says(name: str) -> None:
    assert (DIRECTORY / name).read_text() == PAGES[name], "run `make reference`"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("broker-conf.md", "| `tlsEnabled` | `false` | "),
        ("broker-conf.md", "| `replicationStartAt` | `earliest` | `latest` | "),
        ("broker-conf.md", "| `zookeeperServers` |  | "),
        ("cli.md", "| `--give-up-data` |  | "),
        ("compatibility.md", "| `/admin/v2/clusters/{cluster}` | GET, PUT, POST, DELETE |  |  |  |"),
        ("compatibility.md", "| `/admin/v3/packages/{type}/{tenant}/{namespace}` |  |  |  | GET |"),
        ("configuration.md", "| `brokerServicePort` | integer | `6650` | ≥ 0, ≤ 65535 | "),
        ("metrics.md", "| `magnetar_limit_hits_total` | counter | "),
        ("metrics.md", "| `pulsar_subscription_back_log` | gauge | "),
        ("openapi.json", '"/admin/v2/brokers/health": {'),
        ("openapi.json", '"PartitionedTopicMetadata": {'),
        ("policies.md", "| `messageTTLInSeconds` | `messageTTL` | `messageTTL` | `0` | Seconds after which a message "),
        ("policies.md", "| `limitSize` | `0` |"),
        ("rest.md", "| `/admin/v2/persistent/{tenant}/{namespace}/{topic}/stats` | GET |"),
    ],
)
def test_a_page_has_a_row_for_each_thing(name: str, row: str) -> None:
    assert len(re.findall(f"^{re.escape(row)}", PAGES[name], re.MULTILINE)) == 1
