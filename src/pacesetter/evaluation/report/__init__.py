"""What people read: pages, pictures, memo, comparison of runs."""
