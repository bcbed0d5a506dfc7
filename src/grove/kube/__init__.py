"""A Kubernetes client: transports, credentials, typed client, reflector and store. Independent of Grove's kinds."""
