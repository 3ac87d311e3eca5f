"""The re-ranker in the words of other vendors' clients: Cohere and Jina, and Text Embeddings Inference."""
