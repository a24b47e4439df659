"""Log lines: their limit, and files of output."""
