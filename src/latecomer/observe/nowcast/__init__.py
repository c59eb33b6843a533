"""Nowcasts: what numbers will probably be once all their events have arrived. No Spark."""
