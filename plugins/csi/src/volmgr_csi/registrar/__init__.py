"""Who registers drivers: kubelet's plug-in watcher, and the sockets that the configuration names."""
