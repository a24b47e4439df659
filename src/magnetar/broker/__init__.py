"""The server of one cluster: composition root, sessions, topics, subscriptions and dispatch."""
