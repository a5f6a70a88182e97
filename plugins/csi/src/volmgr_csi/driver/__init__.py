"""How a driver is reached: its socket, its channel, its methods, and which drivers there are."""
