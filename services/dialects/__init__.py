"""Holds the parts of vendors' dialects that several services share. Knows no route and no model."""
