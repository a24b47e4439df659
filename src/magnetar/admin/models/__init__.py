"""What a broker tells about its topics; every field starts with the value that Apache Pulsar shows when idle.

A field ``msg_rate_in`` is ``msgRateIn`` in JSON; one that is None is left out. Rates are per second, sizes bytes,
``…_timestamp`` milliseconds since the epoch (0: never), ``…_since`` ISO 8601 (see ``iso_time``).
"""
