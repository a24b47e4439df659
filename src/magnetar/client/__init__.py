"""Talking to brokers: ``connection`` on asyncio, for brokers; ``blocking`` on plain sockets, for Spark's executors."""
