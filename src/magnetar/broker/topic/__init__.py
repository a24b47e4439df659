"""Topics: one writer of one log each, their lifecycle, the registry of all, and what loads and deletes them."""
