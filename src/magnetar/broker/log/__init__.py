"""The log of a topic: appending, recovery of the index of origins, and damaged entries that links skip."""
