"""A typed client of the service."""
