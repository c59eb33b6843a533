"""Delta tables: their files are written by tasks, and committed by the driver."""
