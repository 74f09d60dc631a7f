"""From the front end to device processes: where they run, how they are supervised, and which request goes to which."""
