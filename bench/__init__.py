"""Benchmarks of Magnetar and Apache Pulsar: ``python -m bench`` measures both alternately with one client."""
