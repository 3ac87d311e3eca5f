"""The encoder in the words of other vendors' clients: OpenAI, and Text Embeddings Inference."""
