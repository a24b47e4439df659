"""Sends the clients of topics to the other cluster, and back (ADR 39)."""
