"""Latecomer beside Spark's own streaming aggregation, on the same events, in the same run."""
