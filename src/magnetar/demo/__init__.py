"""The failover story on real data: three clusters, a planned switch, a killed broker, and an exact account of it."""
