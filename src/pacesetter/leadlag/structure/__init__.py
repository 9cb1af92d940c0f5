"""What a lead–lag matrix says: rankings, significant links, clusters, concentration, anomalies, encodings."""
