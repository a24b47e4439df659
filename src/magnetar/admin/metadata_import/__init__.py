"""Imports the metadata of Apache Pulsar into Magnetar: a pure plan, and its execution through the admin API."""
