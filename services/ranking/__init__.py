"""Owns rankings as values, for gateway and evaluator. Pure: no I/O, no clock."""
