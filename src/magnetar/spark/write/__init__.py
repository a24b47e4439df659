"""The write side of the data source: rows as messages, exactly once if a task or a batch runs again."""
