"""Owns what every store shares: builds and stamps of generations, write order, fields, ties, directories of Edge."""
