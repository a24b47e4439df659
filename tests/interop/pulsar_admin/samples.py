"""Values for the parameters of ``pulsar-admin``, by their names in its help."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.interop.pulsar_admin.usage import Command

BUNDLE = "0x00000000_0x40000000"
"""The first of the four bundles of a new namespace."""

LABELS: Mapping[str, str] = {
    "String=String": "min_limit=1,usage_threshold=80",
    "actions": "produce",
    "allocatorName": "default",
    "antiAffinityGroup": "g",
    "autoFailoverPolicyTypeName": "min_available",
    "bookieAddress": "127.0.0.1:3181",
    "bookieAffinityGroupNamePrimary": "g",
    "bookieRack": "/r",
    "broker": "{broker}",
    "brokerUrl": "{broker}",
    "bundle": BUNDLE,
    "className": "org.apache.pulsar.common.policies.data.SubscribeRate",
    "cluster": "{cluster}",
    "clusterIds": "lone",
    "clusterName": "{cluster}",
    "configName": "allowAutoTopicCreation",
    "configValue": "true",
    "coordinatorId": "0",
    "datetime": "2020-01-01T00:00:00Z",
    "description": "d",
    "domainName": "d",
    "driver": "filesystem",
    "entryFiltersName": "f",
    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
    "jarFilePath": "{jar}",
    "key": "k",
    "ledgerId": "{ledger}",
    "maxInactiveDurationInSeconds": "1h",
    "mode": "Prefix",
    "namespace": "{namespace}",
    "namespaceName": "{namespace}",
    "namespaces": "isolated/.*",
    "packageName": "function://{namespace}/p@v1",
    "path": "{directory}/package",
    "peerClusterNames": "other",
    "policyName": "p",
    "policyStr": "producer_request_hold",
    "primary": "127.0.0.1.*",
    "properties": "k=v",
    "resourceGroupName": "g",
    "rgName": "g",
    "role": "r",
    "roles": "r",
    "schemaFileName": "{directory}/schema.json",
    "shadowTopics": "{topic}-shadow",
    "sizeLimit": "10M",
    "sourceTopic": "{topic}-source",
    "state": '{{"key":"k","stringValue":"v"}}',
    "strategy": "FULL",
    "subName": "s",
    "subTypes": "Shared",
    "subscription": "s",
    "subscriptionName": "new",
    "tenant": "fresh",
    "topic": "{topic}",
    "topicName": "{topic}",
    "type": "function",
    "value": "v",
}
"""Words in braces depend on the command or on the broker."""

NUMBERS: Mapping[str, str] = {
    "entryId": "0",
    "expirationTime": "60",
    "expireTimeInSeconds": "3600",
    "interval": "10",
    "lagInSec": "1d",
    "maxMessageSize": "1024",
    "messageTTLInSecond": "1h",
    "numMessages": "1",
    "numPartitions": "2",
    "retentionTimeInSec": "1h",
    "sizeThreshold": "10M",
    "threshold": "10M",
    "timeoutInMillis": "1s",
}

_NUMBER = re.compile(r"max[A-Z]\w*|bandwidth\w+|memory|msgRate\w+|(least|most)SigBits")
"""Names of values of which any number will do."""

RATE = "-md 100 -bd 1000"

FURTHER: Mapping[str, str] = {
    "clusters create": "{cluster} --url http://127.0.0.1:1 --broker-url pulsar://127.0.0.1:2",
    "clusters update": "{cluster} --url http://127.0.0.1:3 --broker-url pulsar://127.0.0.1:4",
    "clusters update-cluster-migration": "--broker-url pulsar://127.0.0.1:2 --service-url http://127.0.0.1:1",
    "clusters update-failure-domain": "--broker-list 127.0.0.1:8080",
    "functions create": "--tenant script --namespace functions --name f --jar {jar} --classname c --inputs i",
    "functions update": "--tenant script --namespace functions --name f --jar {jar} --classname c --inputs i",
    "functions download": "--tenant script --namespace functions --name f --destination-file {directory}/download",
    "functions list": "--tenant script --namespace functions",
    "functions querystate": "-k k",
    "functions trigger": "--trigger-value v",
    "functions upload": "--source-file {directory}/package",
    "namespaces clear-backlog": "-force",
    "namespaces get-anti-affinity-namespaces": "-p script",
    "namespaces get-topic-positions": "-b {bundle}",
    "namespaces set-auto-subscription-creation": "-e",
    "namespaces set-auto-topic-creation": "-e -t partitioned -n 2",
    "namespaces set-backlog-quota": "-l 10M",
    "namespaces set-deduplication": "-e",
    "namespaces set-delayed-delivery": "-e -t 2s",
    "namespaces set-dispatch-rate": RATE,
    "namespaces set-encryption-required": "-e",
    "namespaces set-inactive-topic-policies": "-e",
    "namespaces set-is-allow-auto-update-schema": "-d",
    "namespaces set-persistence": "-e 1 -w 1 -a 1 -r 1",
    "namespaces set-publish-rate": "-m 100 -b 1000",
    "namespaces set-replicator-dispatch-rate": RATE,
    "namespaces set-schema-autoupdate-strategy": "-c Full",
    "namespaces set-schema-compatibility-strategy": "-c FULL",
    "namespaces set-schema-validation-enforce": "-e",
    "namespaces set-subscribe-rate": "-sr 10 -st 30",
    "namespaces set-subscription-dispatch-rate": RATE,
    "namespaces split-bundle": f"-b {BUNDLE}",
    "resource-quotas get": f"-n {{namespace}} -b {BUNDLE}",
    "resource-quotas set": f"-n {{namespace}} -b {BUNDLE}",
    "resourcegroups create": "-mp 10",
    "resourcegroups update": "-mp 20",
    "sinks create": "--tenant script --namespace sinks --name c --archive {jar} --classname c --inputs i",
    "sinks update": "--tenant script --namespace sinks --name c --archive {jar} --classname c --inputs i",
    "sinks list": "--tenant script --namespace sinks",
    "sources create": "--tenant script --namespace sources --name c --archive {jar} --classname c "
    "--destination-topic-name o",
    "sources update": "--tenant script --namespace sources --name c --archive {jar} --classname c "
    "--destination-topic-name o",
    "sources list": "--tenant script --namespace sources",
    "tenants create": "-c lone -r r",
    "tenants update": "-c lone -r other",
    "topicPolicies set-auto-subscription-creation": "-e",
    "topicPolicies set-backlog-quota": "-l 10M",
    "topicPolicies set-deduplication": "-e",
    "topicPolicies set-delayed-delivery": "-e -t 2s",
    "topicPolicies set-dispatch-rate": RATE,
    "topicPolicies set-inactive-topic-policies": "-e",
    "topicPolicies set-persistence": "-e 1 -w 1 -a 1 -r 1",
    "topicPolicies set-publish-rate": "-m 100 -b 1000",
    "topicPolicies set-replicator-dispatch-rate": RATE,
    "topicPolicies set-subscribe-rate": "-sr 10 -st 30",
    "topicPolicies set-subscription-dispatch-rate": RATE,
    "topics expire-messages": "-t 3600",
    "topics remove-properties": "-k k",
    "topics reset-cursor": "-t 1h",
    "topics set-replicated-subscription-status": "-e",
    "topics set-schema-validation-enforce": "-e",
    "topics update-properties": "-p k=v",
    "topics update-subscription-properties": "-p k=v",
    "transactions scale-transactionCoordinators": "-r 20",
}
"""Further words of commands that do nothing with the required ones only."""

NAMED = frozenset(
    [
        *("functions delete", "functions get", "functions putstate", "functions querystate", "functions restart"),
        *("functions start", "functions stats", "functions status", "functions stop", "functions trigger"),
        *("sinks delete", "sinks get", "sinks restart", "sinks start", "sinks status", "sinks stop"),
        *("sources delete", "sources get", "sources restart", "sources start", "sources status", "sources stop"),
    ]
)
"""Commands that have the name of a function or of a connector in options."""

EXCLUDED: Mapping[str, str] = {
    "brokers shutdown": "ends the broker",
    "documents generate": "writes a text and needs no broker",
    "functions localrun": "runs a function in the tool and needs no broker",
    "sinks localrun": "runs a connector in the tool and needs no broker",
    "sources localrun": "runs a connector in the tool and needs no broker",
}
"""Commands that are not compared, with the reason."""

_OVERRIDES: Mapping[tuple[str, str], str] = {
    ("namespaces list", "tenant"): "script",
    ("schemas extract", "type"): "json",
    ("topics get-subscription-properties", "subscriptionName"): "s",
    ("topics update-subscription-properties", "subscriptionName"): "s",
    ("topics update-partitioned-topic", "numPartitions"): "3",
    ("namespaces list-cluster", "params"): "script/lone",
}


def arguments(command: Command) -> list[str]:
    """Return the words of a command with its required parameters; raises KeyError for an unknown parameter."""
    words = [command.noun, command.verb]
    for option, label in command.parameters:
        words += [*filter(None, [option]), _value(command, label)]
    if command.name in NAMED:
        words += ["--tenant", "script", "--namespace", command.noun, "--name", "f"]
    return [*words, *FURTHER.get(command.name, "").split()]


def _value(command: Command, label: str) -> str:
    for found in (_OVERRIDES.get((command.name, label)), LABELS.get(label), NUMBERS.get(label)):
        if found is not None:
            return found
    if _NUMBER.fullmatch(label):
        return "5"
    message = f"no sample for {label} of {command.name}"
    raise KeyError(message)
