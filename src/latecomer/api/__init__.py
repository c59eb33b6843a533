"""Latecomer from Python: the calls, what a pipeline answers by itself, DataFrames in."""
