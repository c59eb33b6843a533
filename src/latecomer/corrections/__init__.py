"""What was published, seen in hindsight: as of a moment, explained, reconciled, corrected."""
