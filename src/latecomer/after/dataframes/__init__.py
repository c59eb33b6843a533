"""What a store holds as DataFrames of Spark's."""
