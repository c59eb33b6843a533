"""Upkeep of a store: compaction, retention, copies and upgrades."""
