"""Everything about Spark itself: sessions, tasks, and its errors in one sentence."""
