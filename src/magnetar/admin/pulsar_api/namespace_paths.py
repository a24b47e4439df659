"""Paths of namespaces in Apache Pulsar 4.0, each with its methods."""

from __future__ import annotations

NAMESPACES = """
POST                grantPermissionsOnTopics
POST                revokePermissionsOnTopics
GET                 {cluster}/antiAffinity/{group}
GET                 {tenant}
GET PUT DELETE      {tenant}/{namespace}
GET POST            {tenant}/{namespace}/allowedClusters
GET POST DELETE     {tenant}/{namespace}/antiAffinity
GET POST DELETE     {tenant}/{namespace}/autoSubscriptionCreation
GET POST DELETE     {tenant}/{namespace}/autoTopicCreation
POST DELETE         {tenant}/{namespace}/backlogQuota
GET                 {tenant}/{namespace}/backlogQuotaMap
GET                 {tenant}/{namespace}/bundles
POST                {tenant}/{namespace}/clearBacklog
POST                {tenant}/{namespace}/clearBacklog/{subscription}
GET PUT DELETE      {tenant}/{namespace}/compactionThreshold
GET POST DELETE     {tenant}/{namespace}/deduplication
GET POST            {tenant}/{namespace}/deduplicationSnapshotInterval
GET POST DELETE     {tenant}/{namespace}/delayedDelivery
GET POST DELETE     {tenant}/{namespace}/dispatchRate
GET POST DELETE     {tenant}/{namespace}/dispatcherPauseOnAckStatePersistent
GET POST            {tenant}/{namespace}/encryptionRequired
GET POST DELETE     {tenant}/{namespace}/entryFilters
GET POST DELETE     {tenant}/{namespace}/inactiveTopicPolicies
GET POST            {tenant}/{namespace}/isAllowAutoUpdateSchema
GET POST DELETE     {tenant}/{namespace}/maxConsumersPerSubscription
GET POST DELETE     {tenant}/{namespace}/maxConsumersPerTopic
GET POST DELETE     {tenant}/{namespace}/maxProducersPerTopic
GET POST DELETE     {tenant}/{namespace}/maxSubscriptionsPerTopic
GET POST DELETE     {tenant}/{namespace}/maxTopicsPerNamespace
GET POST DELETE     {tenant}/{namespace}/maxUnackedMessagesPerConsumer
GET POST DELETE     {tenant}/{namespace}/maxUnackedMessagesPerSubscription
GET POST DELETE     {tenant}/{namespace}/messageTTL
POST                {tenant}/{namespace}/migration
GET PUT DELETE      {tenant}/{namespace}/offloadDeletionLagMs
GET POST            {tenant}/{namespace}/offloadPolicies
GET PUT             {tenant}/{namespace}/offloadThreshold
GET PUT             {tenant}/{namespace}/offloadThresholdInSeconds
GET                 {tenant}/{namespace}/permissions
GET                 {tenant}/{namespace}/permissions/subscription
POST                {tenant}/{namespace}/permissions/subscription/{subscription}
POST DELETE         {tenant}/{namespace}/permissions/{role}
DELETE              {tenant}/{namespace}/permissions/{subscription}/{role}
GET POST DELETE     {tenant}/{namespace}/persistence
GET POST DELETE     {tenant}/{namespace}/persistence/bookieAffinity
GET PUT DELETE      {tenant}/{namespace}/properties
GET DELETE          {tenant}/{namespace}/property/{key}
PUT                 {tenant}/{namespace}/property/{key}/{value}
GET POST DELETE     {tenant}/{namespace}/publishRate
DELETE              {tenant}/{namespace}/removeOffloadPolicies
GET POST            {tenant}/{namespace}/replication
GET POST DELETE     {tenant}/{namespace}/replicatorDispatchRate
GET DELETE          {tenant}/{namespace}/resourcegroup
POST                {tenant}/{namespace}/resourcegroup/{resourcegroup}
GET POST DELETE     {tenant}/{namespace}/retention
GET                 {tenant}/{namespace}/scanOffloadedLedgers
GET PUT             {tenant}/{namespace}/schemaAutoUpdateCompatibilityStrategy
GET PUT             {tenant}/{namespace}/schemaCompatibilityStrategy
GET POST            {tenant}/{namespace}/schemaValidationEnforced
GET POST DELETE     {tenant}/{namespace}/subscribeRate
GET POST            {tenant}/{namespace}/subscriptionAuthMode
GET POST DELETE     {tenant}/{namespace}/subscriptionDispatchRate
GET POST DELETE     {tenant}/{namespace}/subscriptionExpirationTime
GET POST DELETE     {tenant}/{namespace}/subscriptionTypesEnabled
GET                 {tenant}/{namespace}/topics
PUT                 {tenant}/{namespace}/unload
POST                {tenant}/{namespace}/unsubscribe/{subscription}
DELETE              {tenant}/{namespace}/{bundle}
POST                {tenant}/{namespace}/{bundle}/clearBacklog
POST                {tenant}/{namespace}/{bundle}/clearBacklog/{subscription}
PUT                 {tenant}/{namespace}/{bundle}/split
GET                 {tenant}/{namespace}/{bundle}/topicHashPositions
PUT                 {tenant}/{namespace}/{bundle}/unload
POST                {tenant}/{namespace}/{bundle}/unsubscribe/{subscription}
"""
