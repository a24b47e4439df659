"""Moves a tenant, or a part of it, from one cluster to another while its clients are connected."""
