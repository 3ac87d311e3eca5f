"""Owns the dialects of vendors whose clients ask for weights of terms."""
