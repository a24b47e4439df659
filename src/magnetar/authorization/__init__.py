"""Authorization: what each command and each request requires, and whether a role may do it.

Names of operations and texts of refusals are Pulsar's.
"""
