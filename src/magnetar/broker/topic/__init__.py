"""Topics: one writer of one log, with its parts; the registry that loads, unloads and deletes them."""
