from __future__ import annotations

import pytest

from magnetar.broker.settings.similar import same_name, similar_name

KNOWN = ["clusterName", "bindAddress", "brokerServicePort"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CLUSTER_NAME", "clusterName"),
        ("brokerServicPort", "brokerServicePort"),
        ("bindAdress", "bindAddress"),
        ("x", None),
    ],
)
def test_a_misspelt_name_is_recognized(name: str, meant: str | None) -> None:
    assert similar_name(name, KNOWN) == meant


def test_only_upper_case_and_separators_make_the_same_name() -> None:
    assert same_name("cluster-name", KNOWN) == "clusterName"
    assert same_name("clusterNames", KNOWN) is None
