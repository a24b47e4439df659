"""Implementations of clock, network, disks and stores in memory, with the failures of real ones."""
