"""From the front end to device processes: placement, supervision, and the choice of a device for each request."""
