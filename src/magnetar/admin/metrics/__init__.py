"""Metrics of the broker as Prometheus text, with Pulsar's names and labels."""
