"""Paths of topics in Apache Pulsar 4.0, below ``/admin/v2/{domain}``, each with its methods."""

from __future__ import annotations

TOPICS = """
GET                 {tenant}/{namespace}
GET                 {tenant}/{namespace}/partitioned
PUT DELETE          {tenant}/{namespace}/{topic}
POST                {tenant}/{namespace}/{topic}/all_subscription/expireMessages/{expireTimeInSeconds}
GET POST DELETE     {tenant}/{namespace}/{topic}/autoSubscriptionCreation
GET                 {tenant}/{namespace}/{topic}/backlog
POST DELETE         {tenant}/{namespace}/{topic}/backlogQuota
GET                 {tenant}/{namespace}/{topic}/backlogQuotaMap
PUT                 {tenant}/{namespace}/{topic}/backlogSize
GET PUT             {tenant}/{namespace}/{topic}/compaction
GET POST DELETE     {tenant}/{namespace}/{topic}/compactionThreshold
POST                {tenant}/{namespace}/{topic}/createMissedPartitions
GET POST DELETE     {tenant}/{namespace}/{topic}/deduplicationEnabled
GET POST DELETE     {tenant}/{namespace}/{topic}/deduplicationSnapshotInterval
GET POST DELETE     {tenant}/{namespace}/{topic}/delayedDelivery
GET POST DELETE     {tenant}/{namespace}/{topic}/dispatchRate
GET POST DELETE     {tenant}/{namespace}/{topic}/dispatcherPauseOnAckStatePersistent
GET POST DELETE     {tenant}/{namespace}/{topic}/entryFilters
GET                 {tenant}/{namespace}/{topic}/examinemessage
GET POST DELETE     {tenant}/{namespace}/{topic}/inactiveTopicPolicies
GET                 {tenant}/{namespace}/{topic}/internal-info
GET                 {tenant}/{namespace}/{topic}/internalStats
GET                 {tenant}/{namespace}/{topic}/lastMessageId
GET                 {tenant}/{namespace}/{topic}/ledger/{ledgerId}/entry/{entryId}
GET POST DELETE     {tenant}/{namespace}/{topic}/maxConsumers
GET POST DELETE     {tenant}/{namespace}/{topic}/maxConsumersPerSubscription
GET POST DELETE     {tenant}/{namespace}/{topic}/maxMessageSize
GET POST DELETE     {tenant}/{namespace}/{topic}/maxProducers
GET POST DELETE     {tenant}/{namespace}/{topic}/maxSubscriptionsPerTopic
GET POST DELETE     {tenant}/{namespace}/{topic}/maxUnackedMessagesOnConsumer
GET POST DELETE     {tenant}/{namespace}/{topic}/maxUnackedMessagesOnSubscription
GET POST DELETE     {tenant}/{namespace}/{topic}/messageTTL
GET                 {tenant}/{namespace}/{topic}/messageid/{timestamp}
GET PUT             {tenant}/{namespace}/{topic}/offload
GET POST DELETE     {tenant}/{namespace}/{topic}/offloadPolicies
GET                 {tenant}/{namespace}/{topic}/partitioned-internalStats
GET                 {tenant}/{namespace}/{topic}/partitioned-stats
GET PUT POST DELETE {tenant}/{namespace}/{topic}/partitions
GET                 {tenant}/{namespace}/{topic}/permissions
POST DELETE         {tenant}/{namespace}/{topic}/permissions/{role}
GET POST DELETE     {tenant}/{namespace}/{topic}/persistence
DELETE              {tenant}/{namespace}/{topic}/policies
GET PUT DELETE      {tenant}/{namespace}/{topic}/properties
GET POST DELETE     {tenant}/{namespace}/{topic}/publishRate
GET POST DELETE     {tenant}/{namespace}/{topic}/replication
GET POST DELETE     {tenant}/{namespace}/{topic}/replicatorDispatchRate
GET POST DELETE     {tenant}/{namespace}/{topic}/retention
GET PUT DELETE      {tenant}/{namespace}/{topic}/schemaCompatibilityStrategy
GET POST            {tenant}/{namespace}/{topic}/schemaValidationEnforced
GET PUT DELETE      {tenant}/{namespace}/{topic}/shadowTopics
GET                 {tenant}/{namespace}/{topic}/stats
GET POST DELETE     {tenant}/{namespace}/{topic}/subscribeRate
PUT DELETE          {tenant}/{namespace}/{topic}/subscription/{subscription}
POST                {tenant}/{namespace}/{topic}/subscription/{subscription}/analyzeBacklog
POST                {tenant}/{namespace}/{topic}/subscription/{subscription}/expireMessages
POST                {tenant}/{namespace}/{topic}/subscription/{subscription}/expireMessages/{expireTimeInSeconds}
GET                 {tenant}/{namespace}/{topic}/subscription/{subscription}/position/{messagePosition}
GET PUT             {tenant}/{namespace}/{topic}/subscription/{subscription}/properties
GET POST            {tenant}/{namespace}/{topic}/subscription/{subscription}/replicatedSubscriptionStatus
POST                {tenant}/{namespace}/{topic}/subscription/{subscription}/resetcursor
POST                {tenant}/{namespace}/{topic}/subscription/{subscription}/resetcursor/{timestamp}
POST                {tenant}/{namespace}/{topic}/subscription/{subscription}/skip/{numMessages}
POST                {tenant}/{namespace}/{topic}/subscription/{subscription}/skip_all
GET POST DELETE     {tenant}/{namespace}/{topic}/subscriptionDispatchRate
GET POST DELETE     {tenant}/{namespace}/{topic}/subscriptionTypesEnabled
GET                 {tenant}/{namespace}/{topic}/subscriptions
POST                {tenant}/{namespace}/{topic}/terminate
POST                {tenant}/{namespace}/{topic}/terminate/partitions
POST                {tenant}/{namespace}/{topic}/trim
DELETE              {tenant}/{namespace}/{topic}/truncate
PUT                 {tenant}/{namespace}/{topic}/unload
GET POST DELETE     {tenant}/{namespace}/{topic}/{subscription}/dispatchRate
"""
