"""What is measured during one start of a system; each session is a context manager with a ``measure``."""
