"""What a broker does by itself: trimming, expiry, statistics, unloading, and watching its clock and disk."""
