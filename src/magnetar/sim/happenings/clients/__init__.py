"""What happens to the clients of the clusters."""
