"""Pulsar's bytes, without I/O: frames, commands, entries, batches, markers, and the connection's state machine."""
