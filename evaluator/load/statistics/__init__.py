"""Intervals, tests and trends over times, and whether they may be trusted. Knows no request."""
