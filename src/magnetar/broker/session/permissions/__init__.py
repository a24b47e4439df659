"""Permissions of the clients of sessions: checks of commands, and closing after a revocation."""
