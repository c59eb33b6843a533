"""What happens after publication: a room a feature."""
