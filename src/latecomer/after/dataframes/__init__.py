"""The tables of a store as DataFrames of Spark."""
