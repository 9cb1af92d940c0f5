"""What can be learned, a file each: options, environments, the policy that comes of it, and what a bundle exports."""
