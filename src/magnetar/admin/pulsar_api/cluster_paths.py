"""Paths of clusters, brokers and other nouns in Apache Pulsar 4.0, each with its methods."""

from __future__ import annotations

CLUSTERS = """
GET
GET PUT POST DELETE {cluster}
GET                 {cluster}/failureDomains
GET POST DELETE     {cluster}/failureDomains/{domainName}
GET POST            {cluster}/migrate
GET                 {cluster}/namespaceIsolationPolicies
GET                 {cluster}/namespaceIsolationPolicies/brokers
GET                 {cluster}/namespaceIsolationPolicies/brokers/{broker}
GET POST DELETE     {cluster}/namespaceIsolationPolicies/{policyName}
GET POST            {cluster}/peers
"""

TENANTS = """
GET
GET PUT POST DELETE {tenant}
"""

BROKERS = """
GET
GET                 backlog-quota-check
GET                 configuration
GET                 configuration/runtime
GET                 configuration/values
DELETE              configuration/{configName}
POST                configuration/{configName}/{configValue}
GET                 health
GET                 internal-configuration
GET                 leaderBroker
GET                 ready
POST                shutdown
GET                 version
GET                 {cluster}
GET                 {cluster}/{brokerId}/ownedNamespaces
"""

BROKER_STATS = """
GET                 allocator-stats/{allocator}
GET                 bookieops
GET                 broker-resource-availability/{tenant}/{namespace}
GET                 destinations
GET                 load-report
GET                 mbeans
GET                 metrics
GET                 topics
"""

RESOURCE_QUOTAS = """
GET POST
GET POST DELETE     {tenant}/{namespace}/{bundle}
"""

RESOURCE_GROUPS = """
GET
GET PUT DELETE      {resourcegroup}
"""

SCHEMAS = """
POST                {tenant}/{namespace}/{topic}/compatibility
GET                 {tenant}/{namespace}/{topic}/metadata
GET POST DELETE     {tenant}/{namespace}/{topic}/schema
GET                 {tenant}/{namespace}/{topic}/schema/{version}
GET                 {tenant}/{namespace}/{topic}/schemas
POST                {tenant}/{namespace}/{topic}/version
"""

LOOKUP = """
GET                 persistent/{tenant}/{namespace}/{topic}
GET                 persistent/{tenant}/{namespace}/{topic}/bundle
GET                 non-persistent/{tenant}/{namespace}/{topic}
GET                 non-persistent/{tenant}/{namespace}/{topic}/bundle
"""

TRANSACTIONS = """
POST abortTransaction/{mostSigBits}/{leastSigBits}
GET coordinatorInternalStats/{coordinatorId}
GET coordinatorStats
GET coordinators
GET pendingAckInternalStats/{tenant}/{namespace}/{topic}/{subscription}
GET pendingAckStats/{tenant}/{namespace}/{topic}/{subscription}
GET positionStatsInPendingAck/{tenant}/{namespace}/{topic}/{subscription}/{ledgerId}/{entryId}
GET slowTransactions/{timeout}
GET transactionBufferInternalStats/{tenant}/{namespace}/{topic}
GET transactionBufferStats/{tenant}/{namespace}/{topic}
POST transactionCoordinator/replicas
GET transactionInBufferStats/{tenant}/{namespace}/{topic}/{mostSigBits}/{leastSigBits}
GET transactionInPendingAckStats/{tenant}/{namespace}/{topic}/{subscription}/{mostSigBits}/{leastSigBits}
GET transactionMetadata/{mostSigBits}/{leastSigBits}
"""

BOOKIES = """
GET                 all
GET                 racks-info
GET POST DELETE     racks-info/{bookie}
"""

PROXY_STATS = """
GET                 metrics
GET                 stats
GET                 {domain}/{tenant}/{namespace}/{topic}/stats
"""

PRODUCE = """
POST                non-persistent/{tenant}/{namespace}/{topic}
POST                non-persistent/{tenant}/{namespace}/{topic}/partitions/{partition}
POST                persistent/{tenant}/{namespace}/{topic}
POST                persistent/{tenant}/{namespace}/{topic}/partitions/{partition}
"""

OF_PROXIES = """
GET                 connections
GET                 topics
"""

ANTI_AFFINITY = """
GET                 {cluster}/antiAffinity/{group}
"""
