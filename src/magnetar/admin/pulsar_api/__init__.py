"""Routes of Apache Pulsar's admin API, and their status in Magnetar."""
