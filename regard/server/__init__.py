"""One running batch for many clients, over HTTP: our own interface, and those that clients of others speak."""
