"""From a pod of the plan to what each container is started with: environment, names, ports, volumes, devices."""
