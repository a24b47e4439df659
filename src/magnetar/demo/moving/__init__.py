"""The demo of a migration: a tenant moves to another cluster and back while its clients publish and consume."""
