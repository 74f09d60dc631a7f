"""Messages between the front end and a device process, and their framing."""
