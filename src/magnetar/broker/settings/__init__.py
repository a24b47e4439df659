"""The broker's configuration, and the policies and limits derived from it for namespaces, topics and clients."""
