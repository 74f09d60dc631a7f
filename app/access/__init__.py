"""Who may ask for how much."""
