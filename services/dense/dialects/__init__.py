"""Owns the routes for clients of other vendors: OpenAI, and Text Embeddings Inference."""
