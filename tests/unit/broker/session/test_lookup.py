"""PARTITIONED_METADATA and LOOKUP: names that clients ask for and that have no topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import ServerError
from magnetar.base.limits import Limit
from magnetar.metadata.policies import ClusterData
from magnetar.sim.cluster import TOPIC, Client, Cluster
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.base.names import TopicName

COORDINATORS = "persistent://pulsar/system/transaction_coordinator_assign"


def lookup(topic: TopicName | str, **fields: str) -> pb.CommandLookupTopicResponse:
    return lookup_of(Cluster().client(), topic, **fields)


def lookup_of(client: Client, topic: TopicName | str = TOPIC, **fields: str) -> pb.CommandLookupTopicResponse:
    client.say(commands.encode(pb.CommandLookupTopic(topic=str(topic), request_id=1, **fields)))  # type: ignore[arg-type]
    (answer,) = client.take("LOOKUP_RESPONSE")
    assert isinstance(answer, pb.CommandLookupTopicResponse)
    return answer


def test_clients_with_transactions_learn_that_there_are_no_coordinators() -> None:
    client = Cluster().client()
    client.say(commands.encode(pb.CommandPartitionedTopicMetadata(topic=COORDINATORS, request_id=1)))
    (answer,) = client.take("PARTITIONED_METADATA_RESPONSE")
    assert (answer.response, answer.partitions) == (pb.CommandPartitionedTopicMetadataResponse.Success, 0)
    # The Java client connects to the owner of the topic then; its TC_CLIENT_CONNECT_REQUEST is refused there.
    assert lookup(COORDINATORS).response == pb.CommandLookupTopicResponse.Connect


def test_questions_that_wait_are_limited_in_number() -> None:
    cluster = Cluster(settings={"maxConcurrentLookupRequest": 1})
    client = cluster.client()

    def ask() -> pb.CommandPartitionedTopicMetadataResponse:
        client.say(commands.encode(pb.CommandPartitionedTopicMetadata(topic=str(TOPIC), request_id=1)))
        (answer,) = client.take("PARTITIONED_METADATA_RESPONSE")
        assert isinstance(answer, pb.CommandPartitionedTopicMetadataResponse)
        return answer

    with cluster.environment.lookups:
        refused = ask()
        assert lookup_of(client).response == pb.CommandLookupTopicResponse.Connect, "it is answered at once"
    assert ServerError(refused.error) is ServerError.TooManyRequests
    assert refused.message == "Failed due to too many pending lookup requests (maxConcurrentLookupRequest)"
    assert cluster.environment.limit_hits.counts()[Limit.LOOKUPS.value] == 1
    for _ in range(3):
        assert ask().response == pb.CommandPartitionedTopicMetadataResponse.Success


def test_a_client_gets_the_addresses_of_its_listener() -> None:
    cluster = Cluster()
    external = ClusterData(brokerServiceUrlTls="pulsar+ssl://here.example:6651")
    cluster.topics.addresses = cluster.topics.addresses._replace(listeners={"external": external})
    client = cluster.client()

    def found(name: str) -> tuple[str, str]:
        answer = lookup_of(client, advertised_listener_name=name)
        return answer.brokerServiceUrl, answer.brokerServiceUrlTls

    assert found("") == ("pulsar://here:6650", "")
    assert found("external") == ("", external.brokerServiceUrlTls)
    client.session.listener = "external"  # that of the port
    assert found(" ") == ("", external.brokerServiceUrlTls)


def test_a_listener_that_a_client_names_is_unknown() -> None:
    found = lookup(TOPIC, advertised_listener_name="external")
    assert found.response == pb.CommandLookupTopicResponse.Failed
    assert (ServerError(found.error), found.message) == (
        ServerError.ServiceNotReady,
        "the broker do not have external listener",
    )
    for none in ("", " "):
        assert lookup(TOPIC, advertised_listener_name=none).response == pb.CommandLookupTopicResponse.Connect
