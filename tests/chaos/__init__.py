"""Processes killed at random moments under load."""
