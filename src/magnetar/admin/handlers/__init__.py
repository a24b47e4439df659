"""The routes of the REST API, one module per noun; each is a function from the context to its routes."""
