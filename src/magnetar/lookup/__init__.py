"""The lookup service: sends clients to the cluster that serves them."""
