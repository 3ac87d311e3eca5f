"""Runs the project: models, an Elasticsearch without Docker, all processes on one machine, images."""
