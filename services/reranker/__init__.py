"""The re-ranking service: one cross-encoder behind `POST /v1/score`."""
