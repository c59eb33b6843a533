"""Counts the schemas in a log or in topics, and finds those that no registry has."""
