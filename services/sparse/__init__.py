"""Serves learned sparse retrieval: weighs terms of documents and queries, and finds the largest inner products."""
