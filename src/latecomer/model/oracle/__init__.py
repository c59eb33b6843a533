"""The oracle: every rule of late data in plain Python, event by event. The engine uses nothing of it."""
