"""How all work of a broker shares one event loop: turns, slices, stalls, and what the collector of cycles may take."""
