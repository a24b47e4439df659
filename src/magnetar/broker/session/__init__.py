"""Clients' connections: one module for each family of commands."""
