"""The outside world in memory: time, network, disks and stores that fail as real ones do."""
