"""The description of the REST API as an OpenAPI document, made from the table of routes and the types of bodies."""
