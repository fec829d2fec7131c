"""Next items: predict the next item of a session, such as a list of viewed products."""
