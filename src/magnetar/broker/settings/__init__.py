"""What a broker is configured to do, and what follows from it for namespaces, topics and clients."""
