"""Measures the re-ranker against its peers and against the machine. No service imports it; it is in no image."""
