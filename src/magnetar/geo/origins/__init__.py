"""The map between local and origin positions of a topic's entries, in little memory. Pure."""
