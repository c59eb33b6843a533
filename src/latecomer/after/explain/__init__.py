"""The life of one number, and its picture."""
