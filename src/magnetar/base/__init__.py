"""Foundations of all other packages: positions, names, errors, limits, and interfaces to the outside world."""
