"""Development clusters on one machine, and checks of the machine's Java and Spark."""
