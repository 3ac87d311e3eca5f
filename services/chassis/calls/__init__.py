"""Calls other processes over HTTP/1.1: the port of a transport, and its adapter on sockets of our own."""
