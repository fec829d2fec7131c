"""HTTP server with one running batch for many clients: Regard's own API, and APIs compatible with other services."""
