"""Routes: the clusters that serve the clients of tenants, namespaces and topics."""
