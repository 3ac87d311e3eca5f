"""Runs all processes on one machine: `make up`, `make down`, `make logs`, `make demo`."""
