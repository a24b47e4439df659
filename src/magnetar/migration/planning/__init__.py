"""The plan of a migration: what could prevent it, from the admin APIs of both clusters."""
