"""Messages of stored entries as Arrow columns, without a Python loop per message."""
