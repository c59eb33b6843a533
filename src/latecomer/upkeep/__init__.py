"""Keeping a store in shape: small files merged, old ones swept, what is no longer wanted removed."""
