"""One log that all ledgers of a store share: group commit, reads, and the newest entries in memory."""
