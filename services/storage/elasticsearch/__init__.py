"""Shares clients, errors, indices of generations and bulk writes between texts and vectors on an Elasticsearch."""
