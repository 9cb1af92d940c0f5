"""`pacesetter mcp FOLDER`: read-only answers about one folder for an assistant, bounded in time and memory."""
