"""Links out: what a pipeline carries to another cluster."""
