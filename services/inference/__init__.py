"""Runs models for services: profiles, verified files, tokenizers, graphs, micro-batches, threads. Downloads nothing."""
