"""A fleet's agents one by one and together: tables, pictures, allocation over their proposals."""
