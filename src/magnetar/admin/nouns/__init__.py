"""The nouns of the client of the admin API. Each sends requests through a connection, and returns JSON."""
