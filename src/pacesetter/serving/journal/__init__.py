"""The journal: what was decided, ordered and filled, in SQLite or PostgreSQL, with a chain of hashes."""
