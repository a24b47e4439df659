"""The official client with a broker: one file for each area of Pulsar's behaviour."""
