"""Outgoing links: the entries and markers that a pipeline carries to another cluster."""
