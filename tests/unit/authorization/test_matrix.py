"""The decision about each command and each request, for each role, against the matrix."""

from __future__ import annotations

import pytest

from magnetar.authorization.commands import COMMANDS, demands
from magnetar.authorization.decisions import refusal
from magnetar.authorization.needs import NAMESPACE_OPERATIONS, TOPIC_OPERATIONS, Need, Resource, on_namespace, on_topic
from magnetar.base.names import TopicName
from magnetar.security.principal import NOBODY, Principal
from tests.access.bodies import body_of, commands, requests
from tests.access.roles import ROLES, RULES, STATE, TOPIC, permitted


def allowed(need: Need, resource: Resource) -> set[str]:
    found = {role for role in ROLES if refusal(need, resource, Principal(role, "token"), STATE, RULES) is None}
    if refusal(need, resource, NOBODY, STATE, RULES) is None:
        found.add("")
    return found


def test_each_command_is_permitted_to_the_roles_of_the_matrix() -> None:
    compared = 0
    for command in commands():
        for demand in demands(command.type, body_of(command)):
            expected = permitted(demand.need, demand.resource.cluster)
            assert allowed(demand.need, demand.resource) == expected, command
            compared += 1
    assert compared > len([rows for rows in COMMANDS.values() if rows[0].refusal])


def test_each_request_is_permitted_to_the_roles_of_the_matrix() -> None:
    found = requests()
    wrong = [
        each
        for each in found
        if allowed(each.need, each.resource) - {""} != permitted(each.need, each.resource.cluster)
    ]
    assert wrong == []
    assert len(found) > 400


@pytest.mark.parametrize(
    "need",
    [*map(on_topic, TOPIC_OPERATIONS), *map(on_namespace, NAMESPACE_OPERATIONS)],
    ids=lambda need: need.operation,
)
def test_each_operation_is_permitted_to_the_roles_of_the_matrix(need: Need) -> None:
    assert allowed(need, Resource.of_topic(TopicName.parse(TOPIC))) == permitted(need)
