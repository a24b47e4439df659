"""A client of Pulsar's protocol on asyncio: connections, lookup, producers and consumers."""
