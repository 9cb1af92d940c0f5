"""Texts of the pages in languages other than English, by the same keys."""
