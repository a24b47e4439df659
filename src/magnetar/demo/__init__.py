"""The failover demonstration with real data: three clusters, a planned switch, a killed broker, and an account."""
