"""Whole clusters in one thread, without sockets, disks and clocks: the broker's code, from a seed or moved by hand."""
