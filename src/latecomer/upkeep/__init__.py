"""Compaction and retention."""
