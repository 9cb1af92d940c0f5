"""Direction classifiers: trained, stored, out-of-fold in their own training span, and as a start for agents."""
