"""The metadata of a cluster: clusters, tenants, policies and ledger lists, with versions and watches."""
