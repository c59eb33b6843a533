"""Late events as corrections, served beside the results."""
