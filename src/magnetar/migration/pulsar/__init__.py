"""Moves topics from Apache Pulsar, which has neither fences nor exact progress, by what its admin API shows."""
