"""What is done with the engine beside a source's batches: starting over, new outputs, rebuilds, repairs."""
