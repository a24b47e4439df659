"""The official client against a broker: one file for each area of Pulsar's behaviour."""
