"""What an operator runs around clusters: development clusters on one machine, and checks of the machine itself."""
