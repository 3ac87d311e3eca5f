"""Owns who may do what: API keys, their file, their share, and our own processes' token. Knows no HTTP."""
