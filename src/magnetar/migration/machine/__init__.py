"""The state machine of a migration, and its journal."""
