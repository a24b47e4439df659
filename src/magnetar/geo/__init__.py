"""Replication state between clusters: origins, progress and epochs. Pure, except for the progress link."""
