"""The HTTP API: application, admission control, keys, schemas, logs, and the server process."""
