"""The sessions: each is a context manager for one start of a system, with a method ``measure``."""
