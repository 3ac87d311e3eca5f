"""Owns API keys, their file, scopes and share, and the token of our own processes. Knows no HTTP."""
