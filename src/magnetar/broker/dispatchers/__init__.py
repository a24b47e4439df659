"""Which consumer gets which entry, and when."""
