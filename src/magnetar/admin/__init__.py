"""Administration over HTTP: Pulsar's REST API, Prometheus metrics, and a client for both."""
