"""Owns the routes for clients of other vendors: Cohere, Jina, and Text Embeddings Inference."""
