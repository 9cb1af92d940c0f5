"""Options: orders that last several bars, chosen by a selector (Sutton, Precup, Singh 1999); written or learned."""
