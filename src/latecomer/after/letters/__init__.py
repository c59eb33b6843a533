"""Dead letters, repaired and replayed."""
