"""Authentication of clients by the providers of the configuration, with limits, counters and a log."""
