"""Pure ASGI middleware around the routes, from the access log to the limit of a body."""
