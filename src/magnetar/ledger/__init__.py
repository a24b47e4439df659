"""Durable append-only storage: ledgers in one shared log, and a topic's chain of them.

``record`` and ``segment`` are the bytes on disk, ``index`` is what they hold, ``recovery`` finds it again and ``check``
doubts it. ``log`` commits groups; ``local`` puts a thread, a cache and the event loop around it. ``managed_ledger``
needs only the interface in ``store``.
"""
