"""What a broken or hostile peer may do, and what must not come of it."""
