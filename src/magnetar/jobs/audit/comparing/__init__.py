"""The comparison of logs and acknowledgement states, as pure functions over tables."""
