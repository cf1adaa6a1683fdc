"""Documents that clients asked the gateway to keep, such as answers: bounded, expiring, private to their owner.

What a document contains is the business of the frontend that stores it.
"""
