"""The handshake of a connection, and the renewal of its credentials."""
