"""Certificates: a hash over results that can be computed again."""
