"""Consumption state between clusters: origins, progress and epochs, all pure but the link."""
