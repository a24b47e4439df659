"""Each request of the REST API, by each client, on both ports."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.access.bodies import requests
from tests.access.conftest import NAMESPACE_PATH
from tests.access.rest import WebClient, expected
from tests.access.roles import ROLES, UNPROVED

if TYPE_CHECKING:
    from tests.access.conftest import Secured

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

IDS = ["plain", "TLS"]


@pytest.mark.parametrize("port", [0, 1], ids=IDS)
def test_each_request_is_refused_or_permitted_as_the_table_says(secured: Secured, port: int) -> None:
    """The clients with the fewest permissions come first. The requests of others change what they name."""
    rest, paths = secured.broker.rest, ("tenants/shop", "tenants/other", f"{NAMESPACE_PATH}/permissions")
    before = [rest.get(path) for path in paths]
    wrong, counts = [], Counter[int]()
    for client in (*UNPROVED, *ROLES):
        with WebClient(secured.web[port], client) as web:
            for request in requests():
                answer, wanted = web.ask(request), expected(request, client)
                counts[answer.status] += 1
                if answer != wanted:
                    wrong.append((client, request.method, request.url, answer, wanted))
    print(IDS[port], dict(counts))  # noqa: T201 - shown by -rP
    assert wrong == []
    assert [rest.get(path) for path in paths] == before, "the matrix has changed the permissions that it tests"
