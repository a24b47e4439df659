"""The processes of the demo that use the official client."""
