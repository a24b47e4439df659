"""A topic's part in replication: links out and in, exact progress, PIP-33 snapshots, and protection."""
