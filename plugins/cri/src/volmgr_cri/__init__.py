"""Who still runs a Pod, as the node's container runtime says by CRI; no volume type."""
