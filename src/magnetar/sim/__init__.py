"""Whole clusters in one thread, without sockets, disks and clocks: the broker's own code on a loop moved by hand."""
