"""Simulated producers, consumers and readers."""
