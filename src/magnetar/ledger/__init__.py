"""Durable append-only storage: ledgers in one shared log, and a topic's chain of them.

``managed_ledger`` is a topic's chain, and needs only the interface in ``store``. ``shared_log`` keeps all ledgers of a
store in one log. ``segments`` has the bytes of the log, what they hold, how it is found again and how it is checked.
``medium`` keeps segments.
"""
