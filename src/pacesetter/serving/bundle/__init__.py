"""A policy as a folder that can be served: export, parity, hashes, signatures, versions."""
