"""Snapshots of PIP-33: taking them, what their markers say, and what updates acknowledge. Pure."""
