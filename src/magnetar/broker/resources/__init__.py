"""Limits of the broker's use of the machine (memory, buffers, file descriptors), and counters of their hits."""
