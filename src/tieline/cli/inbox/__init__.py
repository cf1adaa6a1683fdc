"""The command `tieline inbox`: lists the items that wait for the user's answer, and sends the answers to the gateway.

It talks to a running gateway over HTTP, like any client. The inbox itself is in `core/inbox`.
"""
