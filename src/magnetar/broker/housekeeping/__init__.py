"""Periodic work of a broker: trimming, expiry, statistics, unloading, and checks of its clock and disk."""
