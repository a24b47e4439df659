"""A topic's log: appending, what recovery reads of it, the index of origins, and damaged entries that links go past."""
