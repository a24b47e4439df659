"""Settings of TLS, and the rules between them."""
