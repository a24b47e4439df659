"""Checks and repairs of data directories while their broker is stopped."""
