"""The paper trader: feeds, decisions, desk, brokers, session."""
