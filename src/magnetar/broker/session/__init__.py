"""Connections of clients: one module for each family of commands."""
