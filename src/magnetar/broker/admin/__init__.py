"""What the admin API asks of a broker: operations and statistics."""
