"""The metadata of a cluster of Magnetar or Apache Pulsar, read through its admin API."""
