"""Payloads as values of a type that follows from the schema of a topic."""
