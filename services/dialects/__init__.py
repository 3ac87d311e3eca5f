"""Owns what the vendors' dialects of several services share. Knows no route and no model."""
