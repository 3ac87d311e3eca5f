"""What developers run and nobody ships: training and benches. Imports the rest; nothing imports it."""
