"""Paths of functions, connectors and packages in Apache Pulsar 4.0, each with its methods."""

from __future__ import annotations

FUNCTIONS_V2 = """
GET                 connectors
GET                 download
POST                upload
GET                 {tenant}/{namespace}
GET PUT POST DELETE {tenant}/{namespace}/{functionName}
POST                {tenant}/{namespace}/{functionName}/restart
GET                 {tenant}/{namespace}/{functionName}/state/{key}
GET                 {tenant}/{namespace}/{functionName}/status
POST                {tenant}/{namespace}/{functionName}/stop
POST                {tenant}/{namespace}/{functionName}/trigger
POST                {tenant}/{namespace}/{functionName}/{instanceId}/restart
GET                 {tenant}/{namespace}/{functionName}/{instanceId}/status
POST                {tenant}/{namespace}/{functionName}/{instanceId}/stop
"""

FUNCTIONS = """
GET                 builtins
POST                builtins/reload
GET                 connectors
GET                 download
PUT                 leader/{tenant}/{namespace}/{functionName}
POST                upload
GET                 {tenant}/{namespace}
GET PUT POST DELETE {tenant}/{namespace}/{functionName}
GET                 {tenant}/{namespace}/{functionName}/download
POST                {tenant}/{namespace}/{functionName}/restart
POST                {tenant}/{namespace}/{functionName}/start
GET POST            {tenant}/{namespace}/{functionName}/state/{key}
GET                 {tenant}/{namespace}/{functionName}/stats
GET                 {tenant}/{namespace}/{functionName}/status
POST                {tenant}/{namespace}/{functionName}/stop
POST                {tenant}/{namespace}/{functionName}/trigger
POST                {tenant}/{namespace}/{functionName}/{instanceId}/restart
POST                {tenant}/{namespace}/{functionName}/{instanceId}/start
GET                 {tenant}/{namespace}/{functionName}/{instanceId}/stats
GET                 {tenant}/{namespace}/{functionName}/{instanceId}/status
POST                {tenant}/{namespace}/{functionName}/{instanceId}/stop
"""

SINKS = """
GET                 builtinsinks
GET                 builtinsinks/{name}/configdefinition
POST                reloadBuiltInSinks
GET                 {tenant}/{namespace}
GET PUT POST DELETE {tenant}/{namespace}/{sinkName}
POST                {tenant}/{namespace}/{sinkName}/restart
POST                {tenant}/{namespace}/{sinkName}/start
GET                 {tenant}/{namespace}/{sinkName}/status
POST                {tenant}/{namespace}/{sinkName}/stop
POST                {tenant}/{namespace}/{sinkName}/{instanceId}/restart
POST                {tenant}/{namespace}/{sinkName}/{instanceId}/start
GET                 {tenant}/{namespace}/{sinkName}/{instanceId}/status
POST                {tenant}/{namespace}/{sinkName}/{instanceId}/stop
"""

SOURCES = """
GET                 builtinsources
GET                 builtinsources/{name}/configdefinition
POST                reloadBuiltInSources
GET                 {tenant}/{namespace}
GET PUT POST DELETE {tenant}/{namespace}/{sourceName}
POST                {tenant}/{namespace}/{sourceName}/restart
POST                {tenant}/{namespace}/{sourceName}/start
GET                 {tenant}/{namespace}/{sourceName}/status
POST                {tenant}/{namespace}/{sourceName}/stop
POST                {tenant}/{namespace}/{sourceName}/{instanceId}/restart
POST                {tenant}/{namespace}/{sourceName}/{instanceId}/start
GET                 {tenant}/{namespace}/{sourceName}/{instanceId}/status
POST                {tenant}/{namespace}/{sourceName}/{instanceId}/stop
"""

WORKER = """
GET                 assignments
GET                 cluster
GET                 cluster/leader
GET                 cluster/leader/ready
GET                 connectors
GET PUT             drain
GET PUT             leader/drain
PUT                 rebalance
"""

WORKER_STATS = """
GET                 functionsmetrics
GET                 metrics
"""

PACKAGES = """
GET                 {type}/{tenant}/{namespace}
GET                 {type}/{tenant}/{namespace}/{packageName}
GET POST DELETE     {type}/{tenant}/{namespace}/{packageName}/{version}
GET PUT             {type}/{tenant}/{namespace}/{packageName}/{version}/metadata
"""
