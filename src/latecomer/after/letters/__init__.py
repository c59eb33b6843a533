"""Dead letters, repaired and taken in again."""
