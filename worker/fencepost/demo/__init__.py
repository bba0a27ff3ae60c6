"""The incident, replayed on real parts: a naive client and fencepost on the same servers.

Servers, balancer, broker, bridge and worker are processes and sockets as in production. What
happened is counted afterwards, from the servers' own logs and two sink files.
"""
