"""Performs the effects of a migration through the admin APIs of both clusters."""
