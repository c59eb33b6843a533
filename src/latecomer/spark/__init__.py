"""Spark's own matters: sessions, its errors in one sentence, progress."""
