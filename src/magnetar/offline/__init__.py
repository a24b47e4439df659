"""Data directories that no broker uses: checking them, and repairing what keeps a topic from loading."""
