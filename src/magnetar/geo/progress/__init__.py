"""What a replicated subscription has acknowledged, as states that merge, and the links that carry them."""
