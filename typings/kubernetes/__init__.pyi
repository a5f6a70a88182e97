# What volmgr uses of the package kubernetes 37: configuration, authentication and transport, never its models.
