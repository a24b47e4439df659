"""The processes of the demo: publishers and consumers with the official client, and observing readers."""
