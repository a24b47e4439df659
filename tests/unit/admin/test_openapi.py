from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import pytest

from magnetar.admin.api import all_routes
from magnetar.admin.exchange import Context
from magnetar.admin.models.model import NOT_SHOWN, Model
from magnetar.admin.models.topics import TopicStats
from magnetar.admin.openapi.document import document
from magnetar.admin.openapi.schemas import Schemas
from magnetar.admin.pulsar_api.routes import GROUPS
from magnetar.base.position import Position
from magnetar.metadata.policies import TenantInfo
from tests.unit.admin.fake_service import new_service

SERVICE = new_service()
ROUTES = all_routes(Context(SERVICE, SERVICE.resources))
DOCUMENT = document(ROUTES, "1.2.3")
TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"


@dataclass(slots=True, kw_only=True)
class Inner(Model):
    """The inner one.

    With details.
    """

    at_position: Position
    may_be_absent: list[int] | None = None
    hidden: int = field(default=0, metadata=NOT_SHOWN)


@dataclass(slots=True, kw_only=True)
class Outer(Model):
    """The outer one."""

    by_name: dict[str, Inner]
    per_name: dict[str, float | None]


def operation(method: str, path: str) -> Any:  # noqa: ANN401 - JSON
    return DOCUMENT["paths"][path][method]


def references(value: object) -> set[str]:
    """Return all references in a document."""
    match value:
        case {"$ref": str(found)}:
            return {found}
        case dict():
            return {found for each in value.values() for found in references(each)}
        case list():
            return {found for each in value for found in references(each)}
    return set()


def test_each_route_is_described_once() -> None:
    described = [(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods]
    assert len(described) == len(ROUTES) >= sum(1 for group in GROUPS for _ in group.routes())


def test_each_reference_has_a_target() -> None:
    found = references(DOCUMENT)
    assert len(found) > 100
    components = DOCUMENT["components"]
    targets = {f"#/components/{kind}/{name}" for kind, named in components.items() for name in named}
    assert found <= targets
    assert {each for each in targets - found if "/responses/" not in each} == set()


def test_each_parameter_of_a_path_is_described() -> None:
    parameters = DOCUMENT["components"]["parameters"]
    for path, methods in DOCUMENT["paths"].items():
        for described in methods.values():
            used = [parameters[each["$ref"].rpartition("/")[2]] for each in described.get("parameters", ())]
            named = [each["name"] for each in used if each["in"] == "path"]
            assert named == re.findall(r"{(\w+)}", path)


@pytest.mark.parametrize("schema", DOCUMENT["components"]["schemas"].values())
def test_a_schema_is_valid(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


def test_a_refused_route_has_one_answer() -> None:
    assert list(operation("get", "/admin/v3/packages/{type}/{tenant}/{namespace}")["responses"]) == ["501"]


def test_a_route_with_a_value() -> None:
    found = operation("get", f"{TOPIC}/stats")
    schema = {"$ref": "#/components/schemas/TopicStats"}
    assert found["responses"]["200"]["content"] == {"application/json": {"schema": schema}}
    assert {each["$ref"] for each in found["parameters"]} >= {
        "#/components/parameters/path.topic",
        "#/components/parameters/query.getPreciseBacklog",
    }
    assert list(found["responses"]) == ["200", "404", "412", "500", "503"]


def test_a_route_with_a_body() -> None:
    found = operation("post", f"{TOPIC}/retention")
    schema = {"$ref": "#/components/schemas/RetentionPolicies"}
    assert found["requestBody"]["content"] == {"application/json": {"schema": schema}}
    assert list(found["responses"]) == ["204", "400", "404", "409", "412", "413", "500", "501", "503"]


def test_a_policy_that_may_be_unset() -> None:
    assert list(operation("get", f"{TOPIC}/retention")["responses"])[:2] == ["200", "204"]


def test_an_answer_without_a_body_has_no_media_type() -> None:
    found = operation("put", "/admin/v2/clusters/{cluster}")
    assert found["responses"]["200"] == {"description": "Nothing"}
    assert '"": {' not in json.dumps(DOCUMENT)


def test_a_number_in_a_path() -> None:
    (found,) = (
        each for each in operation("get", f"{TOPIC}/messageid/{{timestamp}}")["parameters"] if "time" in each["$ref"]
    )
    parameter = DOCUMENT["components"]["parameters"][found["$ref"].rpartition("/")[2]]
    assert parameter["schema"]["type"] == "integer"


def test_the_schema_of_a_model() -> None:
    schemas = Schemas()
    assert schemas.of(dict[str, Outer]) == {
        "type": "object",
        "additionalProperties": {"$ref": "#/components/schemas/Outer"},
    }
    inner = {"$ref": "#/components/schemas/Inner"}
    number = {"anyOf": [{"type": "number"}, {"type": "null"}]}
    assert schemas.named["Outer"]["properties"] == {
        "byName": {"type": "object", "additionalProperties": inner},
        "perName": {"type": "object", "additionalProperties": number},
    }
    assert schemas.named["Inner"] == {
        "type": "object",
        "description": "The inner one.",
        "properties": {
            "atPosition": {"type": "string", "pattern": "^-?[0-9]+:-?[0-9]+$"},
            "mayBeAbsent": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["atPosition"],
    }


def test_a_model_conforms_to_its_schema() -> None:
    schema = {"$ref": "#/components/schemas/TopicStats", "components": DOCUMENT["components"]}
    jsonschema.validate(TopicStats().to_json(), schema)
    with pytest.raises(jsonschema.ValidationError, match="msgRateIn"):
        jsonschema.validate({**TopicStats().to_json(), "msgRateIn": "much"}, schema)


def test_the_schema_of_a_document() -> None:
    schemas = Schemas()
    assert schemas.of(TenantInfo) == {"$ref": "#/components/schemas/TenantInfo"}
    assert schemas.named["TenantInfo"]["properties"]["adminRoles"]["items"] == {"type": "string"}
