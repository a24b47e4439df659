"""Identities on connections: credentials of clients, and TLS.

It opens no connections. Names of settings and authentication methods are Pulsar's.
"""
