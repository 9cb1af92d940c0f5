"""Structure of a lead–lag matrix: rankings, significant links, clusters, concentration, anomalies, encodings."""
