"""Topics of Kafka as a source: what is new, in ranges of offsets, and the records of a range."""
