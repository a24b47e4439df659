"""Simulated clusters with the metadata synchronizer: ``magnetar simulate --metadata``.

The brokers, their synchronizers and the replication of the event topic are the real ones. The worlds contain only
changes of metadata, so that they are cheap. ``edits`` changes metadata in all clusters as the admin API does,
``faults`` adds faults. ``history`` records each change at the border between administration and the synchronizer, with
its timestamp. ``replay`` is the oracle: it plays all changes in their order, one after the other. It shares no code
with ``magnetar.metasync``.
"""
