"""The migration fence of a topic: it keeps clients away while a migration moves them to another cluster."""
