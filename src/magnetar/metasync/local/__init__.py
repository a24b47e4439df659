"""The metadata of one cluster: the common state, and what differs from it here."""
