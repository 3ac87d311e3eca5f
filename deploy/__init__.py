"""How this project is run: models, a real Elasticsearch, every process on one machine, images."""
