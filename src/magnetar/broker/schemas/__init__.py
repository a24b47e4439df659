"""The schemas of this cluster's topics."""
