"""The audit log of a broker: a file with one line of JSON for each event, written by a thread of its own."""
