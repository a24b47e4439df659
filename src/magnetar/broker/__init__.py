"""One cluster's server: composition root, sessions, topics, subscriptions and dispatch."""
