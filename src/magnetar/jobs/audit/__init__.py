"""The audit: compares the entries and the acknowledgement state of topics in several clusters."""
