"""The demo, from its command line to its report."""
