"""The demo, from its command to its report."""
