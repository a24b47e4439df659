"""The metadata synchronizer (PIP-136): merges the tenants, namespaces, policies and partitions of several clusters."""
