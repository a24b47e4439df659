"""TLS on the ports of the broker: certificates and their renewal, handshakes, and encrypted connections."""
