"""The engine: runs batches, restarts after a crash, and adds new outputs, rebuilds and repairs."""
