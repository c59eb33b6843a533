"""Values, tables and reports as text and HTML."""
