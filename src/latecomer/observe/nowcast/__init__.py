"""What numbers will probably be once all their events have come. No Spark."""
