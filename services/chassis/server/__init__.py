"""Serves connections: sockets, TLS, HTTP/1.1 within bounds, early refusals, the port of metrics, logs."""
