"""Expansion at index time: what models add to documents, written and read as files."""
