"""Actions of the clients."""
