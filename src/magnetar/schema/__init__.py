"""Schemas: their types, validation and compatibility. Pure."""
