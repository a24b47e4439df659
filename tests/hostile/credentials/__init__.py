"""Mutated handshakes, tokens, passwords and certificates against one broker. Everything comes from a seed."""
