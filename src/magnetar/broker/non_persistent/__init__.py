"""Non-persistent topics: messages are sent to the consumers that can take them at once, and are never stored."""
