"""Exact progress of a topic: links from broker to broker, what they say, and what deletions leave."""
