"""The web server of the admin API, with limits for each client."""
