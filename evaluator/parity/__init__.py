"""Compares BM25 presets with published figures, and finds the setting that explains a difference."""
