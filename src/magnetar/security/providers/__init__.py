"""Authentication of clients: one module for each provider of Pulsar, and the choice among them."""
