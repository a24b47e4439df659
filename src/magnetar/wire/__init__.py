"""Pulsar's binary protocol without I/O: frames, commands, entries, and the state machine of a connection."""
