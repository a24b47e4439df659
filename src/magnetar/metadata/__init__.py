"""What a cluster knows besides messages: clusters, tenants, policies, ledger lists; versioned and watchable."""
