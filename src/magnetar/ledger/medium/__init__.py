"""Where segments are kept: the interface that the log writes and reads through, and files on this machine's disk."""
