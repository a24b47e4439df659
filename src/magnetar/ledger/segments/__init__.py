"""The files of the shared log: records, segments, their recovery, check and salvage."""
