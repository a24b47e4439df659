"""The processes of the demo: publishers and consumers with the official client, and readers that observe."""
