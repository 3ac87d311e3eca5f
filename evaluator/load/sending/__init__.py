"""Plans and sends the requests of a load and keeps what came back. Leaves figures to points."""
