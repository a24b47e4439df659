"""The read side of the data source: ranges of positions, planned by the driver and read by tasks."""
