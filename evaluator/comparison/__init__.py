"""Compares rankings of the same queries: what they share, verdicts, examples, and the page of it."""
