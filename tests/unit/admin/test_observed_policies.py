"""Policies: the answers of Apache Pulsar 4.0.7, recorded in ``observed_policies.jsonl``, and Magnetar's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from magnetar.base.names import TopicName
from tests.unit.admin.fake_service import AppTransport, FakeTopic, new_service

if TYPE_CHECKING:
    from collections.abc import Iterator

OBSERVED = Path(__file__).with_name("observed_policies.jsonl")
"""Each line is a request and its answer: method, path, body, status, answer."""

TOPIC = TopicName.parse("persistent://t/n/x")


def observed() -> Iterator[tuple[str, str, Any, int, Any]]:
    for line in OBSERVED.read_text(encoding="utf-8").splitlines():
        method, path, body, status, answer = json.loads(line)
        yield method, path, body, 204 if status == 200 and answer is None else status, answer


def decoded(response: httpx.Response) -> Any:  # noqa: ANN401 - any JSON, or text
    try:
        return response.json() if response.content else None
    except ValueError:
        return response.text


def test_policies_are_answered_as_pulsar_does() -> None:
    service = new_service()
    different = []
    with httpx.Client(transport=AppTransport(service), base_url=f"{service.admin_url}/admin/v2/") as http:
        http.put("tenants/t", json={"allowedClusters": ["A"]})
        http.put("namespaces/t/n")
        service.topics.held[TOPIC] = FakeTopic()
        http.put("persistent/t/n/p/partitions", json=2)
        for method, path, body, status, answer in observed():
            response = http.request(method, path) if body is None else http.request(method, path, json=body)
            found = decoded(response)
            if (response.status_code, found) != (status, answer):
                different.append((method, path, body, status, answer, response.status_code, found))
    assert different == []
