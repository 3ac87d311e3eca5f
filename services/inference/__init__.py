"""What the model-running services share: profiles, fetching, sessions, tokens, batches and their workers."""
