"""Decides who may call a process: keys, sessions of browsers, the login, forms, pages of other origins."""
