"""Statistics that a broker reports. The default of each field is the value of an idle topic in Apache Pulsar.

A field ``msg_rate_in`` is ``msgRateIn`` in JSON; a field that is None is omitted. Rates are per second, sizes in bytes,
``…_timestamp`` in milliseconds since the epoch (0: never), ``…_since`` in ISO 8601 (see ``iso_time``).
"""
