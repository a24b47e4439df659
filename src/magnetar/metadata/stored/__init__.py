"""Documents of operators in the metadata store."""
