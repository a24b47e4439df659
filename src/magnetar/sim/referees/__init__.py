"""What must be true: a naive model, and the checks that compare brokers with it."""
