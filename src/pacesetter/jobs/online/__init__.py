"""Updates of a fleet while it trades: what is learned from new bars, when it is taken, and how to go back."""
