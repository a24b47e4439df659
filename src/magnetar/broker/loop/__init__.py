"""Fair use of the event loop by all work of a broker: turns, slices, stalls, and garbage collection."""
