"""What a plugin may touch of the machine: mounts, files, commands, block devices, ownership, paths."""
