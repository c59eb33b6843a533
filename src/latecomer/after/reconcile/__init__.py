"""Results compared with another source: what is equal, missing, extra, different, and why."""
