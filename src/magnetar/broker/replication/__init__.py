"""The part of a topic in replication: outgoing and incoming links, exact progress, snapshots of PIP-33, protection."""
