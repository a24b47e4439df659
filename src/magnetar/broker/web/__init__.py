"""The web server of the admin API, and what one of its clients can take."""
