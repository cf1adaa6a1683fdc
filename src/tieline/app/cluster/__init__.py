"""A cluster of replicas: which replicas are alive (`membership`), how they reach one another (`peers`), and draining.

The replicas share a database, through which they find one another. Requests go directly from replica to replica.
"""
