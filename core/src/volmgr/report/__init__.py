"""What people are told: why a Pod waits, events, metrics, what lies around."""
