from __future__ import annotations

import json
from itertools import permutations

import pytest

from magnetar.base.errors import RequestError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.lookup.knowledge import Knowledge
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.routes.atlas import Atlas
from magnetar.metadata.routes.table import Route

TOPIC = TopicName.parse("persistent://acme/orders/a")
ORDERS = NamespaceName("acme", "orders")


def atlas(by: str, routes: dict[str, Route], **urls: str) -> Atlas:
    return Atlas(
        cluster=by,
        version="1",
        routes={scope: route.to_json() for scope, route in routes.items()},
        clusters={name: ClusterData(brokerServiceUrl=url) for name, url in urls.items()},
    )


STATEMENTS = (
    atlas("ewr", {"acme": Route("ewr", 5)}, ewr="pulsar://ewr:1", jfk="pulsar://old:1"),
    atlas("jfk", {"acme": Route("jfk", 7), "acme/orders": Route("ewr", 3)}, jfk="pulsar://jfk:1"),
    atlas("ewr", {"acme/orders": Route(None, 4)}, ewr="pulsar://ewr:1", jfk="pulsar://old:1"),
)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_statements_of_brokers_give_the_same_knowledge_in_any_order(order: tuple[int, ...]) -> None:
    knowledge = Knowledge()
    assert all(knowledge.learn(STATEMENTS[index]) for index in order[:1])
    for index in order:
        knowledge.learn(STATEMENTS[index])
    assert knowledge.cluster_of(TOPIC) == "jfk"
    assert knowledge.addresses("jfk").brokerServiceUrl == "pulsar://jfk:1"
    assert not any(knowledge.learn(each) for each in STATEMENTS)


def test_a_topic_without_a_route_is_served_by_the_default_cluster_if_there_is_one() -> None:
    assert Knowledge("lga").cluster_of(TOPIC) == "lga"
    with pytest.raises(RequestError, match=f"there is no route for {TOPIC}, and the lookup service has no default"):
        Knowledge().cluster_of(TOPIC)
    with pytest.raises(RequestError, match="no broker has told the address of cluster lga"):
        Knowledge("lga").addresses("lga")


def test_a_namespace_is_served_by_the_clusters_of_its_topics_as_well() -> None:
    knowledge = Knowledge("lga")
    assert list(knowledge.clusters_of(ORDERS)) == ["lga"]
    knowledge.learn(atlas("ewr", {str(TOPIC): Route("jfk", 1)}))
    assert list(knowledge.clusters_of(ORDERS)) == ["lga", "jfk"]
    knowledge.learn(atlas("ewr", {"acme": Route("ewr", 1)}))
    assert list(knowledge.clusters_of(ORDERS)) == ["ewr", "jfk"]
    with pytest.raises(RequestError, match="there is no route for acme/orders"):
        Knowledge().clusters_of(ORDERS)


def test_knowledge_survives_json() -> None:
    knowledge = Knowledge()
    for each in STATEMENTS:
        knowledge.learn(each)
    again = Knowledge.from_json(json.loads(json.dumps(knowledge.to_json())))
    assert again.to_json() == knowledge.to_json()
    assert not any(again.learn(each) for each in STATEMENTS)
