"""Magnetar beside Apache Pulsar: ``python -m bench`` measures both in turn, with one client, and prints one table."""
