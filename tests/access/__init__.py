"""The matrix of access: each command and each request of a broker, by each kind of client, on each port."""
