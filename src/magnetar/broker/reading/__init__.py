"""Reading entries ahead for those who send them, within the shares of memory; no decision who gets what."""
