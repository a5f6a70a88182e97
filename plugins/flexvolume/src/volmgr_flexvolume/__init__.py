"""Volume types that executables bring: flexVolume drivers."""
