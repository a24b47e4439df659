"""A simple model of the expected state, and the checks that compare brokers with it."""
