"""Faults of disks, and of the data stored on them."""
