"""Broken and hostile peers, and the limits of their effects."""
