"""The policies of namespaces and topics: the table of them, and the types of their values."""
