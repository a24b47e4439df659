"""Administration over HTTP: Pulsar's REST API, its metrics, and a client for both."""
