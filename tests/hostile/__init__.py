"""Hostile clients, exhausted resources and faults of the machine, and what another client experiences meanwhile."""
