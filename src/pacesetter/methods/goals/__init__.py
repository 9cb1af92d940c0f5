"""Goals: an agent is asked for a return by a bar, sees how far it is from it, and learns from what it reached."""
