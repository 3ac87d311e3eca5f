"""Serves one cross-encoder that scores passages against a query: `POST /v1/score`, and other vendors' routes."""
