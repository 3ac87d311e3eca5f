"""Opens, decodes and replaces files. The lowest layer: needs the standard library alone."""
