"""Searches the highest rate that a pipeline carries within a bound of p99."""
