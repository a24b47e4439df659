"""Topics, each the only writer of its log: lifecycle, registry, loading and deletion."""
