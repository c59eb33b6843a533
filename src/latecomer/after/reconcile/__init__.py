"""Results held against another source: what is equal, missing, extra, different, and why."""
